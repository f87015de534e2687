// Quantities with units as people write them. Numbers are read as integers and a decimal scale,
// never through floating point, so that 12.5GB/s is exactly 12,500,000,000. Errors are
// Error(Usage).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plan {

// "400GB/s", "200Gb/s", "12.5GiB/s": bytes per second.
std::int64_t parse_rate(std::string_view text);

// "5us", "500ns", "1.5ms": nanoseconds.
std::int64_t parse_duration_ns(std::string_view text);

// "80GiB", "1.5GB", "4096": bytes.
std::int64_t parse_size_bytes(std::string_view text);

// "1.25 GiB", cut (not rounded) to hundredths of the largest binary unit that is not above it.
std::string bytes_text(std::int64_t bytes);

}  // namespace plan
