// Whole files in and out.
#pragma once

#include <fstream>
#include <ostream>
#include <string>
#include <string_view>

namespace plan {

// Reads a whole file; Error(Unreadable) names it and the system's reason.
std::string read_file(const std::string& path);

// A file that appears whole or not at all: bytes go to a temporary file beside `path`, commit()
// renames it into place, and a file that was never committed is removed. "-" is standard output,
// where nothing can be taken back. Failures are Error(Io).
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  std::ostream& stream() { return *stream_; }
  void commit();

 private:
  [[noreturn]] void fail(const std::string& what);

  std::string path_;
  std::string temporary_;  // empty: standard output, or committed
  std::ofstream file_;
  std::ostream* stream_;
};

// Writes to a temporary file beside `path`, then renames; nothing half-written is left behind.
// Error(Io). "-" writes to standard output.
void write_file(const std::string& path, std::string_view bytes);

}  // namespace plan
