#include "libplan/base/digest.h"

#include <catch2/catch.hpp>

namespace plan {
namespace {

TEST_CASE("SHA-256 of known texts (FIPS 180-2, appendix B)") {
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

TEST_CASE("hashing in parts is hashing the whole") {
  Sha256 hasher;
  hasher.update("a");
  hasher.update("");
  hasher.update("bc");
  CHECK(to_hex(hasher.finish()) == sha256_hex("abc"));
}

}  // namespace
}  // namespace plan
