#include "libplan/base/files.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>

#include "libplan/base/error.h"

namespace plan {
namespace {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(fs::temp_directory_path() / ("files_test." + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }
  std::ptrdiff_t num_files() const {
    return std::distance(fs::directory_iterator(path_), fs::directory_iterator());
  }

 private:
  fs::path path_;
};

TEST_CASE("an atomic file appears when it is committed") {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder.file("a"));
    file.stream() << "new";
    CHECK_FALSE(fs::exists(folder.file("a")));
    file.commit();
  }
  CHECK(read_file(folder.file("a")) == "new");
  CHECK(folder.num_files() == 1);
}

TEST_CASE("an atomic file that is not committed leaves the old one") {
  const TemporaryFolder folder;
  write_file(folder.file("a"), "old");
  {
    AtomicFile file(folder.file("a"));
    file.stream() << "new";
  }
  CHECK(read_file(folder.file("a")) == "old");
  CHECK(folder.num_files() == 1);
}

TEST_CASE("a folder that does not exist is named") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(write_file(folder.file("no/a"), "x"),
                    Catch::Contains("no/a: cannot be written: No such file"));
}

}  // namespace
}  // namespace plan
