// What a fuzz target gives: libFuzzer's entry, and good inputs to start from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

// An input that the target accepts, drawn from `seed`.
std::string good_input(std::uint32_t seed);
