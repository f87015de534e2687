#include "libplan/schedule/plan_file.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "libplan/base/error.h"
#include "libplan/base/files.h"
#include "libplan/schedule/flatbuffers_codec.h"
#include "tests/schedule/sample_schedules.h"

namespace plan {
namespace {

namespace fs = std::filesystem;

class TemporaryFolder {
 public:
  TemporaryFolder()
      : path_(fs::temp_directory_path() / ("plan_file_test." + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~TemporaryFolder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const { return (path_ / name).string(); }
  std::ptrdiff_t num_files() const {
    return std::distance(fs::directory_iterator(path_), fs::directory_iterator());
  }

 private:
  fs::path path_;
};

TEST_CASE("the suffix chooses the form, the content tells it") {
  const TemporaryFolder folder;
  write_plan(every_field(), folder / "p.json");
  write_plan(every_field(), folder / "p.fb");
  CHECK_FALSE(is_flatbuffers(read_file(folder / "p.json")));
  CHECK(is_flatbuffers(read_file(folder / "p.fb")));
  CHECK(read_plan(folder / "p.json") == every_field());
  CHECK(read_plan(folder / "p.fb") == every_field());
  fs::rename(folder / "p.fb", folder / "renamed.json");
  CHECK(read_plan(folder / "renamed.json") == every_field());
}

TEST_CASE("a plan that cannot be written leaves nothing behind") {
  const TemporaryFolder folder;
  ir::Schedule broken = every_field();
  broken.programs[0].copies[0].from.lanes = 7;
  CHECK_THROWS_AS(write_plan(broken, folder / "p.json"), Error);
  CHECK_THROWS_AS(write_plan(broken, folder / "p.fb"), Error);
  CHECK_THROWS_WITH(write_plan(every_field(), folder / "p.txt"),
                    Catch::Contains("ends in .json or .fb"));
  CHECK(folder.num_files() == 0);
  // The old file stays when the new one fails.
  write_plan(four_by_four(), folder / "p.json");
  CHECK_THROWS_AS(write_plan(broken, folder / "p.json"), Error);
  CHECK(read_plan(folder / "p.json") == four_by_four());
  CHECK(folder.num_files() == 1);
}

TEST_CASE("files that cannot be opened are named") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH(read_plan(folder / "none.json"),
                    Catch::Contains("none.json: cannot be opened"));
  CHECK_THROWS_WITH(write_plan(every_field(), folder / "no/such/p.fb"),
                    Catch::Contains("no/such/p.fb: cannot be written"));
  std::ofstream(folder / "empty.fb").close();
  try {
    read_plan(folder / "empty.fb");
    FAIL("accepted");
  } catch (const Error& error) {
    CHECK(error.code() == ErrorCode::Unreadable);
  }
}

}  // namespace
}  // namespace plan
