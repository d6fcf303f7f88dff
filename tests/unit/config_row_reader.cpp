#include "partita/config/row_reader.hpp"
#include "partita/config/user_error.hpp"

#include <string>
#include <vector>

#include "support/catch.hpp"

namespace partita::test::config_row_reader {

namespace {

const RowFormat format{"partita things", 2, "is not a file of things", "is not a thing"};

/// The rows of a file, or why it is refused.
std::vector<std::string> rowsOf(const std::string& text) {
  std::vector<std::string> rows;
  try {
    RowReader reader(text, "file", format);
    reader.readRows([&](const std::string& row) {
      if (row != "bad") rows.push_back(row);
      return row != "bad";
    });
  } catch (const UserError& error) {
    return {error.what()};
  }
  return rows;
}

} // namespace

TEST_CASE("A last row that was cut off is left out", "[config]") {
  using Rows = std::vector<std::string>;
  CHECK(rowsOf("partita things 2\na\nb\n") == Rows{"a", "b"});
  CHECK(rowsOf("partita things 2\na\nb") == Rows{"a"});
  CHECK(rowsOf("partita things 2\na\nbad") == Rows{"a"});
  CHECK(rowsOf("partita things 2\na\nbad\n") == Rows{"file:3: is not a thing"});
  CHECK(rowsOf("partita things 2 hash\n").empty());
  CHECK(rowsOf("partita things 2").empty());
}

TEST_CASE("A file of another version or of another kind is refused", "[config]") {
  const std::string must = "; its first line must begin with 'partita things 2'";
  for (const char* const first :
       {"partita things 1", "partita things 1 hash", "partita things 22", "partita things"}) {
    INFO(first);
    CHECK(rowsOf(std::string(first) + "\na\n").front() ==
          "file: is not a file of things of this version of the program" + must);
  }
  for (const char* const first : {"", "partita", "partita thin", "partita others 2", "[deck]"}) {
    INFO(first);
    CHECK(rowsOf(std::string(first) + "\na\n").front() == "file: is not a file of things" + must);
  }
}

TEST_CASE("The line ends of Windows are named", "[config]") {
  const std::string why = ": the line ends in CRLF, as on Windows, instead of LF";
  for (const char* const text : {"partita things 2\r\na\r\n", "partita things 2 hash\r\na\r\n"}) {
    INFO(text);
    CHECK(rowsOf(text).front() == "file:1" + why);
  }
  CHECK(rowsOf("partita things 2\na\nb\r\n").front() == "file:3" + why);
  CHECK(rowsOf("others\r\na\r\n").front().find("file: is not a file of things;") == 0);
}

TEST_CASE("The first line may say more than the format", "[config]") {
  CHECK(RowReader("partita things 2 hash\n", "file", format).first() == "partita things 2 hash");
}

} // namespace partita::test::config_row_reader
