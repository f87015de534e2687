#include "libplan/base/dtype.h"

#include <array>

#include "libplan/base/error.h"

namespace plan {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::int64_t bytes;
  std::string_view name;        // ours, written
  std::string_view torch_name;  // torch's, read
};

constexpr std::array kRows = {
    DtypeRow{Dtype::Float64, 8, "fp64", "float64"},
    DtypeRow{Dtype::Float32, 4, "fp32", "float32"},
    DtypeRow{Dtype::Float16, 2, "fp16", "float16"},
    DtypeRow{Dtype::BFloat16, 2, "bf16", "bfloat16"},
    DtypeRow{Dtype::Float8E4M3, 1, "fp8_e4m3", "float8_e4m3fn"},
    DtypeRow{Dtype::Float8E5M2, 1, "fp8_e5m2", "float8_e5m2"},
    DtypeRow{Dtype::Int64, 8, "int64", "long"},
    DtypeRow{Dtype::Int32, 4, "int32", "int"},
    DtypeRow{Dtype::Int16, 2, "int16", "short"},
    DtypeRow{Dtype::Int8, 1, "int8", "char"},
    DtypeRow{Dtype::UInt8, 1, "uint8", "byte"},
    DtypeRow{Dtype::Bool, 1, "bool", "boolean"},
};

const DtypeRow& row_of(Dtype dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  PLAN_CHECK(index < kRows.size() && kRows[index].dtype == dtype);
  return kRows[index];
}

}  // namespace

std::int64_t size_bytes(Dtype dtype) { return row_of(dtype).bytes; }

std::string_view name_of(Dtype dtype) { return row_of(dtype).name; }

std::optional<Dtype> dtype_from_name(std::string_view name) {
  for (const DtypeRow& row : kRows) {
    if (name == row.name || name == row.torch_name) return row.dtype;
  }
  if (name == "float") return Dtype::Float32;
  if (name == "double") return Dtype::Float64;
  if (name == "half") return Dtype::Float16;
  if (name == "fp8") return Dtype::Float8E4M3;
  return std::nullopt;
}

}  // namespace plan
