#include "partita/io/json.hpp"

#include <cmath>
#include <limits>

#include "support/catch.hpp"

namespace partita::test::io_json {

namespace {

template <class Value>
std::string jsonOf(const Value& value) {
  JsonObject object;
  object.add("k", value);
  const std::string text = object.text(), front = "{\n  \"k\": ";
  REQUIRE(text.rfind(front, 0) == 0);
  return text.substr(front.size(), text.size() - front.size() - 2); // without "\n}"
}

} // namespace

TEST_CASE("JSON text is quoted and escaped", "[io]") {
  CHECK(jsonOf("plain") == R"("plain")");
  CHECK(jsonOf(std::string("a\"b\\c")) == R"("a\"b\\c")");
  CHECK(jsonOf("tab\tnew\nline\x01") == R"("tab\u0009new\u000Aline\u0001")");
  CHECK(jsonOf("\xc3\xa9") == "\"\xc3\xa9\""); // UTF-8 is unchanged
  CHECK(jsonOf("") == R"("")");
}

TEST_CASE("JSON numbers keep all digits, what JSON has no word for is null", "[io]") {
  CHECK(jsonOf(0.1) == "0.1");
  CHECK(jsonOf(1.0) == "1");
  CHECK(std::stod(jsonOf(1.0 / 3.0)) == 1.0 / 3.0);
  CHECK(std::stod(jsonOf(-1.2345678901234567e-300)) == -1.2345678901234567e-300);
  CHECK(jsonOf(std::int64_t{9007199254740993}) == "9007199254740993");
  CHECK(jsonOf(std::numeric_limits<double>::quiet_NaN()) == "null");
  CHECK(jsonOf(-std::numeric_limits<double>::infinity()) == "null");
}

TEST_CASE("JSON lists and objects", "[io]") {
  CHECK(jsonOf(std::vector<double>{}) == "[]");
  CHECK(jsonOf(std::vector<double>{0.5, std::nan(""), 2.0}) == "[0.5, null, 2]");
  CHECK(jsonOf(std::vector<std::int64_t>{1, -2}) == "[1, -2]");
  CHECK(jsonOf(std::vector<std::string>{"a\"b", ""}) == "[\"a\\\"b\", \"\"]");
  CHECK(jsonOf(std::vector<std::string>{"run-\xff"}) == "[" + jsonOf("run-\xff") + "]"); // valid UTF-8
  CHECK(jsonOf("run-\xff").find('\xff') == std::string::npos);
  JsonObject inner;
  inner.add("a", std::int64_t{1});
  inner.add("b", "x");
  CHECK(jsonOf(inner) == "{\n    \"a\": 1,\n    \"b\": \"x\"\n  }");
  CHECK(jsonOf(std::vector<JsonObject>{inner, {}}) == "[{\n    \"a\": 1,\n    \"b\": \"x\"\n  }, {\n  }]");
  CHECK(JsonObject().text() == "{\n}");
}

} // namespace partita::test::io_json
