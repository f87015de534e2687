// Runs a fuzz target without libFuzzer: COUNT inputs from seed FIRST on, each a good input with a
// few random changes. A crash prints its seed; `TARGET 1 SEED` repeats it.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string>

#include "tests/fuzz/fuzz_target.h"

namespace {

unsigned long current_seed = 0;

void print_seed() {
  std::fprintf(stderr, "failed with seed %lu\n", current_seed);
  std::fflush(stderr);
}

void on_signal(int number) {
  print_seed();
  ::signal(number, SIG_DFL);
  ::raise(number);
}

std::string changed(std::string bytes, std::mt19937& engine) {
  static const std::string kWords[] = {"0",          "-1",  "9223372036854775807",
                                       "4294967295", "1e9", "null",
                                       "[",          "}",   "\"",
                                       "\\u0000",    ",",   "{\"a\":1}"};
  const unsigned changes = 1 + engine() % 4;
  for (unsigned i = 0; i < changes && !bytes.empty(); ++i) {
    const std::size_t at = engine() % bytes.size();
    const std::size_t length = 1 + engine() % 16;
    switch (engine() % 7) {
      case 0: bytes[at] = static_cast<char>(bytes[at] ^ (1 << (engine() % 8))); break;
      case 1: bytes[at] = static_cast<char>(engine()); break;
      case 2: bytes.erase(at, length); break;
      case 3: bytes.insert(at, bytes.substr(engine() % bytes.size(), length)); break;
      case 4: bytes.replace(at, 1, kWords[engine() % std::size(kWords)]); break;
      case 5: bytes[at] = static_cast<char>(engine() % 2 == 0 ? 0xFF : 0x00); break;
      default: {  // another digit: what a JSON text is mostly made of
        const std::size_t digit = bytes.find_first_of("0123456789", at);
        if (digit != std::string::npos) bytes[digit] = static_cast<char>('0' + engine() % 10);
      }
    }
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  const unsigned long count = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 3000;
  const unsigned long first = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 0;
  for (const int number : {SIGABRT, SIGSEGV, SIGFPE, SIGBUS}) ::signal(number, on_signal);
  for (current_seed = first; current_seed < first + count; ++current_seed) {
    std::mt19937 engine(static_cast<std::uint32_t>(current_seed));
    const std::string input =
        changed(good_input(static_cast<std::uint32_t>(current_seed % 64)), engine);
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
  }
  std::printf("%lu inputs from seed %lu on\n", count, first);
  return 0;
}
