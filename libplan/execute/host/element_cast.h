// Casts between floating-point types as state conversion needs them.
//
// Round to nearest, ties to even; overflow becomes infinity; subnormals are kept; a NaN stays a NaN
// (quiet, sign and leading payload bits kept). Covered: equal dtypes of any kind (a copy), and
// every pair of fp64, fp32, fp16, bf16 except fp64 to a 16-bit type, where a step through fp32
// would round twice.
#pragma once

#include <cstddef>
#include <cstdint>

#include "libplan/base/dtype.h"

namespace plan {

bool can_convert(Dtype from, Dtype to);

// `from` and `to` hold `count` elements each, do not overlap, and need no alignment.
// Error(Unsupported) unless can_convert.
void convert_elements(const std::byte* from, Dtype from_dtype, std::byte* to, Dtype to_dtype,
                      std::int64_t count);

// The single casts, on bit patterns.
std::uint32_t float_bits_of_bfloat16(std::uint16_t bits);
std::uint16_t bfloat16_of_float_bits(std::uint32_t bits);
std::uint32_t float_bits_of_half(std::uint16_t bits);
std::uint16_t half_of_float_bits(std::uint32_t bits);

}  // namespace plan
