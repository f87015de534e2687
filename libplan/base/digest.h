// SHA-256 of bytes. Proves integrity, not origin.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace plan {

using Sha256Digest = std::array<std::uint8_t, 32>;

// Hashes bytes as they come. Single use: nothing may follow finish().
class Sha256 {
 public:
  Sha256();
  void update(std::string_view bytes);
  Sha256Digest finish();

 private:
  struct FreeContext {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, FreeContext> context_;
};

Sha256Digest sha256(std::string_view bytes);

// 64 lower-case hex digits.
std::string to_hex(const Sha256Digest& digest);
std::string sha256_hex(std::string_view bytes);

}  // namespace plan
