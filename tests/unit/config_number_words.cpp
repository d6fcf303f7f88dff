#include "partita/config/number_words.hpp"

#include <cstdint>
#include <string>

#include "support/catch.hpp"

namespace partita::test::config_number_words {

TEST_CASE("Words of a line are numbers of their kinds", "[config]") {
  NumberWords words("0a 7 0x1.8p+1 -1 0.25\r");
  CHECK(words.bits() == 10U);
  CHECK(words.integer(0, 9) == 7);
  CHECK(words.real() == 3.0);
  CHECK(words.integer(-1, 1) == -1);
  CHECK_FALSE(words.whole()); // a word is left
  NumberWords all("3 0x0p+0");
  CHECK(all.integer(3, 3) == 3);
  CHECK(all.real() == 0.0);
  CHECK(all.whole());
}

TEST_CASE("A word that is no such number is damage, and so is one that is missing", "[config]") {
  for (const char* const word :
       {"", "garbage", "nan", "inf", "-inf", "-0x1p+0", "1e300", "1e999", "0x1p+0x"}) {
    INFO(word);
    NumberWords words(word);
    words.real();
    CHECK_FALSE(words.good());
    CHECK_FALSE(words.whole());
  }
  for (const char* const word : {"", "x", "1x", "1e1", "0.5", "-1", "10", "99999999999999999999"}) {
    INFO(word);
    NumberWords words(word);
    CHECK(words.integer(0, 9) == 0);
    CHECK_FALSE(words.good());
  }
  NumberWords words("x 5");
  words.bits();
  CHECK(words.integer(0, 9) == 0); // nothing after damage counts
  CHECK_FALSE(words.good());
}

TEST_CASE("A check word proves a line complete and unchanged", "[config]") {
  const auto accepted = [](const std::string& line) {
    NumberWords words(line);
    words.integer(0, 9);
    words.real();
    return words.checked();
  };
  const std::string line = withCheckWord("3 0x1.8p+1");
  CHECK(accepted(line));
  CHECK(accepted(withCheckWord("4 0x1.8p+1")));
  for (std::size_t i = 0; i < line.size(); ++i) {
    INFO(i);
    std::string changed = line;
    changed[i] = changed[i] == '4' ? '5' : '4';
    CHECK_FALSE(accepted(changed));
    CHECK_FALSE(accepted(line.substr(0, i)));
  }
  CHECK_FALSE(accepted("3 0x1.8p+1"));
  CHECK_FALSE(accepted(withCheckWord("3")));
  CHECK_FALSE(accepted(line + " 1"));
}

} // namespace partita::test::config_number_words
