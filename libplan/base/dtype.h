// Element types of stored state.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace plan {

enum class Dtype : std::uint8_t {
  Float64,
  Float32,
  Float16,
  BFloat16,
  Float8E4M3,
  Float8E5M2,
  Int64,
  Int32,
  Int16,
  Int8,
  UInt8,
  Bool,
};

// Bytes of one element: 1, 2, 4 or 8.
std::int64_t size_bytes(Dtype dtype);

// Names as in JSON files: "fp64", "fp32", "fp16", "bf16", "fp8_e4m3", "fp8_e5m2", "int64", "int32",
// "int16", "int8", "uint8", "bool".
std::string_view name_of(Dtype dtype);

// Accepts the names above, torch's ("bfloat16", "float32", "half", ...), and "fp8" (= fp8_e4m3).
std::optional<Dtype> dtype_from_name(std::string_view name);

}  // namespace plan
