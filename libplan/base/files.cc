#include "libplan/base/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>

#include "libplan/base/error.h"

namespace plan {

std::string read_file(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    throw Error(ErrorCode::Unreadable, std::string("cannot be opened: ") + std::strerror(errno),
                path);
  }
  std::ostringstream buffer;
  buffer << stream.rdbuf();
  // An empty file sets failbit on the output side; a directory or a read error sets badbit here.
  if (stream.bad() || (buffer.fail() && stream.peek() != std::ifstream::traits_type::eof())) {
    throw Error(ErrorCode::Unreadable, "cannot be read", path);
  }
  return std::move(buffer).str();
}

void write_file(const std::string& path, std::string_view bytes) {
  if (path == "-") {
    std::cout.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    std::cout.flush();
    if (!std::cout) throw Error(ErrorCode::Io, "cannot write to standard output");
    return;
  }
  const std::string temporary = path + ".tmp" + std::to_string(::getpid());
  {
    std::ofstream stream(temporary, std::ios::binary | std::ios::trunc);
    stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    stream.flush();
    if (!stream) {
      const std::string reason = std::strerror(errno);
      std::remove(temporary.c_str());
      throw Error(ErrorCode::Io, "cannot be written: " + reason, path);
    }
  }
  if (std::rename(temporary.c_str(), path.c_str()) != 0) {
    const std::string reason = std::strerror(errno);
    std::remove(temporary.c_str());
    throw Error(ErrorCode::Io, "cannot be renamed into place: " + reason, path);
  }
}

}  // namespace plan
