#include "libplan/base/files.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <sstream>
#include <utility>

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

AtomicFile::AtomicFile(std::string path) : path_(std::move(path)), stream_(&file_) {
  if (path_ == "-") {
    stream_ = &std::cout;
    return;
  }
  temporary_ = path_ + ".tmp" + std::to_string(::getpid());
  file_.open(temporary_, std::ios::binary | std::ios::trunc);
  if (!file_) fail("cannot be written: ");
}

AtomicFile::~AtomicFile() {
  if (!temporary_.empty()) std::remove(temporary_.c_str());
}

void AtomicFile::fail(const std::string& what) {
  const std::string reason = std::strerror(errno);
  if (!temporary_.empty()) std::remove(temporary_.c_str());
  temporary_.clear();
  throw Error(ErrorCode::Io, what + reason, path_);
}

void AtomicFile::commit() {
  stream_->flush();
  if (path_ == "-") {
    if (!*stream_) throw Error(ErrorCode::Io, "cannot write to standard output");
    return;
  }
  file_.close();
  if (!file_) fail("cannot be written: ");
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail("cannot be renamed into place: ");
  temporary_.clear();
}

void write_file(const std::string& path, std::string_view bytes) {
  AtomicFile file(path);
  file.stream().write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.commit();
}

}  // namespace plan
