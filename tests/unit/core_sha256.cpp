#include "partita/core/sha256.hpp"

#include "support/catch.hpp"

namespace partita::test::core_sha256 {

namespace {

std::string hashOf(const std::string& text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

} // namespace

TEST_CASE("SHA-256 gives the digests of the standard", "[core]") {
  CHECK(hashOf("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hashOf("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hashOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hashOf(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 does not depend on how the data are split", "[core]") {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  const std::string whole = hashOf(text);
  for (const std::size_t piece : {1U, 3U, 55U, 56U, 63U, 64U, 65U, 128U}) {
    Sha256 hash;
    for (std::size_t i = 0; i < text.size(); i += piece)
      hash.update(text.data() + i, std::min(piece, text.size() - i));
    CHECK(hash.hex() == whole);
    CHECK(hash.hex() == whole); // reading the hash does not change its state
  }
}

TEST_CASE("A copy of a SHA-256 continues where the first one stopped", "[core]") {
  Sha256 first;
  first.update("ab", 2);
  Sha256 second = first;
  second.update("c", 1);
  CHECK(second.hex() == hashOf("abc"));
  CHECK(first.hex() == hashOf("ab"));
}

} // namespace partita::test::core_sha256
