#include "partita/config/user_error.hpp"
#include "partita/io/output_file.hpp"

#include <array>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <future>
#include <string>
#include <unistd.h>
#include <vector>

#include "data_files.hpp"
#include "support/catch.hpp"
#include "support/file_size_limit.hpp"

namespace partita::test::io_output_file {

namespace {

/// An open descriptor. The test program did not begin with it.
class Descriptor {
 public:
  explicit Descriptor(int number) : _number(number) { REQUIRE(_number >= 0); }
  Descriptor(const std::string& path, int mode) : Descriptor(open(path.c_str(), mode)) {}
  ~Descriptor() { close(_number); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return _number; }

 private:
  int _number;
};

/// Standard output leads elsewhere while this lives; Catch must report nothing meanwhile.
class StandardOutput {
 public:
  explicit StandardOutput(const Descriptor& to) : _kept(dup(STDOUT_FILENO)) {
    std::fflush(stdout);
    dup2(to.number(), STDOUT_FILENO);
  }
  ~StandardOutput() {
    std::fflush(stdout);
    dup2(_kept, STDOUT_FILENO);
    close(_kept);
  }
  StandardOutput(const StandardOutput&) = delete;
  StandardOutput& operator=(const StandardOutput&) = delete;

 private:
  int _kept;
};

/// Writes a file; returns the message if that fails.
std::string written(const std::string& path, const std::string& content) {
  return messageOf([&] {
    OutputFile file(path);
    file.write(content);
    file.commit();
  });
}

std::string numbered(int descriptor) {
  return "/dev/fd/" + std::to_string(descriptor);
}

} // namespace

TEST_CASE("Names that the system cannot look up are still told apart", "[io]") {
  const std::string one(300, 'a'),
      other(300, 'b'); // too long; a folder closed to the user has the same effect
  CHECK(isSameFile(one, "./" + one));
  CHECK_FALSE(isSameFile(one, other));
}

TEST_CASE("An open descriptor is appended to, under each of its names", "[io]") {
  const ScratchFolder folder;
  folder.write("log", "first\n");
  std::filesystem::create_symlink("/dev/stdout", folder.path("link"));
  std::filesystem::create_symlink("link", folder.path("link of a link"));
  std::filesystem::create_directory_symlink("/proc/self/fd", folder.path("all"));
  const std::vector<std::string> names{
      "/dev/stdout",
      "/dev/fd/1",
      "/dev/../dev/fd/1",
      "/proc/self/fd/1",
      "/proc/thread-self/fd/1",
      "/proc/" + std::to_string(getpid()) + "/fd/1",
      folder.path("link"),
      folder.path("link of a link"),
      folder.path("all/1"),
  };
  std::vector<std::string> messages;
  std::string expected = "first\n";
  {
    const Descriptor log(folder.path("log"), O_WRONLY | O_APPEND);
    const StandardOutput redirected(log);
    for (const std::string& name : names) {
      messages.push_back(written(name, name + "\n"));
      expected += name + "\n";
    }
  }
  CHECK(messages == std::vector<std::string>(names.size()));
  CHECK(folder.read("log") == expected);
  CHECK(std::filesystem::is_symlink(folder.path("link")));
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 4);
}

TEST_CASE("A descriptor is written where it stands, after what has been printed", "[io]") {
  const ScratchFolder folder;
  folder.write("log", "");
  std::string message;
  {
    const Descriptor log(folder.path("log"), O_WRONLY);
    const StandardOutput redirected(log);
    std::printf("printed before\n"); // not flushed: no terminal
    message = written("/dev/stdout", "written\n");
    std::printf("printed after\n");
  }
  CHECK(message.empty());
  CHECK(folder.read("log") == "printed before\nwritten\nprinted after\n");
}

TEST_CASE("A descriptor that was not open for writing at the start is refused in one line", "[io]") {
  const ScratchFolder folder;
  folder.write("log", "content");
  const Descriptor own(folder.path("log"), O_WRONLY | O_APPEND), reading(folder.path("log"), O_RDONLY);
  const std::string end = " is not open for writing";
  for (const int number : {own.number(), 1000, 100000})
    CHECK(written(numbered(number), "x") ==
          numbered(number) + ": descriptor " + std::to_string(number) + end);
  std::string message;
  {
    const StandardOutput redirected(reading);
    message = written("/dev/stdout", "x");
  }
  CHECK(message == "/dev/stdout: descriptor 1" + end);
  CHECK_FALSE(written("/dev/fd/no number", "x").empty());
  CHECK(folder.read("log") == "content");
}

TEST_CASE("A pipe that somebody has made non-blocking gets everything, and stays so", "[io]") {
  const std::string content(1 << 20, 'x'); // more than a pipe holds
  std::array<int, 2> ends{};
  REQUIRE(pipe(ends.data()) == 0);
  const Descriptor reading(ends[0]);
  auto received = std::async(std::launch::async, [&] {
    std::string all;
    std::array<char, 4096> block{};
    for (ssize_t got = 0; (got = read(reading.number(), block.data(), block.size())) > 0;)
      all.append(block.data(), static_cast<std::size_t>(got));
    return all;
  });
  std::string message;
  int mode = 0;
  {
    const Descriptor writing(ends[1]);
    fcntl(writing.number(), F_SETFL, O_WRONLY | O_NONBLOCK);
    const StandardOutput redirected(writing);
    message = written("/dev/stdout", content);
    mode = fcntl(writing.number(), F_GETFL);
  }
  CHECK(message.empty());
  CHECK((mode & O_NONBLOCK) != 0);
  const bool equal = received.get() == content;
  CHECK(equal);
}

TEST_CASE("A write-only file is replaced and stays write-only", "[io]") {
  const ScratchFolder folder;
  const std::string path = folder.write("out", "before");
  namespace fs = std::filesystem;
  fs::permissions(path, fs::perms::owner_write);
  CHECK(written(path, "after").empty());
  CHECK(fs::status(path).permissions() == fs::perms::owner_write);
  fs::permissions(path, fs::perms::owner_read);
  CHECK(folder.read("out") == "after");
}

TEST_CASE("The folder of an output is that of its file, which need not exist yet", "[io]") {
  const ScratchFolder folder;
  namespace fs = std::filesystem;
  const fs::path own = fs::canonical(folder.path(".")), other = own / "other";
  fs::create_directory(other);
  fs::create_symlink("other/out", own / "link");
  CHECK(outputFolder(own / "out") == own.string());
  for (const bool exists : {false, true}) {
    INFO("exists: " << exists);
    if (exists) CHECK(written(own / "link", "text").empty());
    CHECK(outputFolder(own / "link") == other.string());
  }
  CHECK(fs::exists(other / "out"));
}

TEST_CASE("Of unfinished outputs, only files of the process itself are removed", "[io]") {
  const ScratchFolder folder;
  {
    OutputFile file(folder.path("out"));
    SECTION("by a signal") {
      OutputFile::removeUnfinished();
      CHECK_FALSE(std::filesystem::exists(folder.path("out.partial")));
    }
    SECTION("unless their names lead to those of others") {
      std::filesystem::rename(folder.path("out.partial"), folder.path("moved"));
      folder.write("out.partial", "somebody's");
      OutputFile::removeUnfinished();
      CHECK(folder.read("out.partial") == "somebody's");
    }
  }
  CHECK(std::filesystem::exists(folder.path("out.partial")) == std::filesystem::exists(folder.path("moved")));
}

TEST_CASE("A short output that does not fit on the disk leaves the file as it was", "[io]") {
  const ScratchFolder folder;
  const std::string path = folder.write("out", "before");
  {
    OutputFile file(path);
    file.write(std::string(100, 'x')); // stays in a buffer until the end
    const FileSizeLimit full(50);
    CHECK_THROWS_AS(file.commit(), UserError);
  }
  CHECK(folder.read("out") == "before");
  CHECK_FALSE(std::filesystem::exists(path + ".partial"));
}

} // namespace partita::test::io_output_file
