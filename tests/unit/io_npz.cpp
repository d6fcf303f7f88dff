#include "partita/config/user_error.hpp"
#include "partita/io/npz.hpp"
#include "partita/io/output_file.hpp"

#include <zlib.h>

#include <csignal>
#include <future>
#include <sys/resource.h>
#include <sys/stat.h>

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::io_npz {

namespace {

/// An unsigned number of `bytes` bytes, lowest byte first.
std::uint64_t numberAt(const std::string& text, std::size_t place, int bytes) {
  std::uint64_t value = 0;
  for (int i = bytes; i-- > 0;) value = value << 8 | static_cast<unsigned char>(text.at(place + i));
  return value;
}

constexpr std::uint64_t six_gigabytes = 6000000000, wide = 0xFFFFFFFF;

} // namespace

TEST_CASE("The head of a .npy file is as NumPy wants it, and fills whole 64 bytes", "[io]") {
  const std::string header = npyHeader("<f4", {3, 20});
  CHECK(header.substr(0, 10) == std::string("\x93NUMPY\x01\x00\x76\x00", 10));
  CHECK(header.substr(10, 62) == "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 20), }  ");
  CHECK(header.back() == '\n');
  CHECK(npyHeader("<i4", {7}).find("'shape': (7,), }") != std::string::npos);
  CHECK(npyHeader("|S5", {}).find("'shape': (), }") != std::string::npos);
  for (std::int64_t length = 1, extent = 1; length < 18; ++length, extent = 10 * extent + 1) {
    const std::string padded = npyHeader("<f4", {extent});
    CHECK(padded.size() % 64 == 0);
    CHECK(numberAt(padded, 8, 2) == padded.size() - 10);
  }
}

TEST_CASE("Members of an archive are 32-bit where they fit", "[io]") {
  const ZipMember member{"a.npy", 5, 70, 0x12345678};
  const std::string local = zipLocalHeader(member), entry = zipDirectoryEntry(member);
  CHECK(local.size() == 30 + 5);
  CHECK(local.substr(0, 6) == std::string("PK\x03\x04\x14\x00", 6));
  CHECK(numberAt(local, 14, 4) == 0x12345678);
  CHECK(numberAt(local, 18, 4) == 5);
  CHECK(numberAt(local, 22, 4) == 5);
  CHECK(numberAt(local, 28, 2) == 0); // no extra field
  CHECK(local.substr(30) == "a.npy");
  CHECK(entry.size() == 46 + 5);
  CHECK(entry.substr(0, 4) == "PK\x01\x02");
  CHECK(numberAt(entry, 42, 4) == 70);
  const std::string end = zipEnd(1, 100, 51);
  CHECK(end.size() == 22);
  CHECK(numberAt(end, 10, 2) == 1);
  CHECK(numberAt(end, 12, 4) == 51);
  CHECK(numberAt(end, 16, 4) == 100);
}

TEST_CASE("Members over 4 GB, and those after 4 GB, have 64-bit numbers", "[io]") {
  const ZipMember large{"a.npy", six_gigabytes, six_gigabytes + 1, 0};
  const std::string local = zipLocalHeader(large), entry = zipDirectoryEntry(large);
  REQUIRE(local.size() == 30 + 5 + 20);
  CHECK(numberAt(local, 4, 2) == 45);
  CHECK(numberAt(local, 18, 4) == wide);
  CHECK(numberAt(local, 22, 4) == wide);
  CHECK(numberAt(local, 28, 2) == 20);
  CHECK(numberAt(local, 35, 2) == 1); // ZIP64
  CHECK(numberAt(local, 39, 8) == six_gigabytes);
  CHECK(numberAt(local, 47, 8) == six_gigabytes);
  REQUIRE(entry.size() == 46 + 5 + 28);
  CHECK(numberAt(entry, 42, 4) == wide);
  CHECK(numberAt(entry, 71, 8) == six_gigabytes + 1);

  const std::string small_after = zipDirectoryEntry({"b.npy", 5, six_gigabytes, 0});
  REQUIRE(small_after.size() == 46 + 5 + 12);
  CHECK(numberAt(small_after, 20, 4) == 5);
  CHECK(numberAt(small_after, 55, 8) == six_gigabytes);
}

TEST_CASE("The end of a large archive points to its 64-bit form", "[io]") {
  const std::string end = zipEnd(3, six_gigabytes, 200);
  REQUIRE(end.size() == 56 + 20 + 22);
  CHECK(end.substr(0, 4) == "PK\x06\x06");
  CHECK(numberAt(end, 32, 8) == 3);
  CHECK(numberAt(end, 40, 8) == 200);
  CHECK(numberAt(end, 48, 8) == six_gigabytes);
  CHECK(end.substr(56, 4) == "PK\x06\x07");
  CHECK(numberAt(end, 64, 8) == six_gigabytes + 200);
  CHECK(end.substr(76, 4) == "PK\x05\x06");
  CHECK(numberAt(end, 92, 4) == wide);
  CHECK(zipEnd(70000, 100, 200).size() == end.size()); // too many members for 16 bits
}

TEST_CASE("An archive holds what was written, with its checksums", "[io]") {
  const ScratchFolder folder;
  NpzWriter file(folder.path("a.npz"));
  file.add("x/weight", {1, 2}, {1.5F, -2.0F});
  file.begin("labels", "<i4", {2}, 8);
  const std::int32_t labels[2] = {7, 9};
  file.write(labels, 4);
  file.write(labels + 1, 4); // in two parts
  file.add("names", std::vector<std::string>{"ab", "cde"});
  CHECK_FALSE(std::filesystem::exists(folder.path("a.npz")));
  file.commit();

  const std::string archive = folder.read("a.npz"), header = npyHeader("<f4", {1, 2});
  const std::string content = header + std::string("\x00\x00\xc0\x3f\x00\x00\x00\xc0", 8);
  const std::size_t begin = 30 + std::string("x/weight.npy").size();
  CHECK(archive.substr(30, begin - 30) == "x/weight.npy");
  CHECK(archive.substr(begin, content.size()) == content);
  CHECK(numberAt(archive, 14, 4) ==
        crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size()));
  CHECK(archive.find(npyHeader("<i4", {2}) + std::string("\x07\0\0\0\x09\0\0\0", 8)) != std::string::npos);
  CHECK(archive.find(npyHeader("|S3", {2}) + std::string("ab\0cde", 6)) != std::string::npos);
  CHECK(numberAt(archive, archive.size() - 12, 2) == 3);
  const std::size_t directory = numberAt(archive, archive.size() - 6, 4);
  CHECK(archive.substr(directory, 4) == "PK\x01\x02");
  CHECK(numberAt(archive, directory + 16, 4) == numberAt(archive, 14, 4));
}

TEST_CASE("Members written in parts, some of them empty, have the same checksums", "[io]") {
  const ScratchFolder folder;
  const std::vector<float> values{1, 2, 3};
  const auto write = [&](const std::string& name, bool in_parts) {
    NpzWriter file(folder.path(name));
    file.begin("x", "<f4", {3}, 12);
    if (in_parts) file.write(nullptr, 0);
    file.write(values.data(), 12);
    if (in_parts) file.write(nullptr, 0);
    file.commit();
    return folder.read(name);
  };
  CHECK(write("parts.npz", true) == write("whole.npz", false));
}

TEST_CASE("What is not finished or cannot be written leaves no file", "[io]") {
  const ScratchFolder folder;
  folder.write("a.npz", "old");
  {
    NpzWriter file(folder.path("a.npz"));
    file.add("deck", "text");
  }
  CHECK(folder.read("a.npz") == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  const std::string nowhere = folder.path("no/folder.npz");
  CHECK(messageOf([&] { NpzWriter file(nowhere); }) ==
        nowhere + ": cannot be written: No such file or directory");
}

TEST_CASE("Files next to an output, and targets that are not regular files, are left alone", "[io]") {
  const ScratchFolder folder;
  folder.write("a.npz.partial", "somebody's");
  folder.write("target.npz", "old");
  std::filesystem::create_symlink("target.npz", folder.path("link.npz"));
  const auto writeTo = [&](const std::string& name) {
    NpzWriter file(folder.path(name));
    file.add("deck", "text");
    file.commit();
  };
  writeTo("a.npz");
  CHECK(folder.read("a.npz.partial") == "somebody's");
  writeTo("link.npz");
  CHECK(std::filesystem::is_symlink(folder.path("link.npz")));
  CHECK(folder.read("target.npz") == folder.read("a.npz"));

  const std::string pipe = folder.path("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  auto reader = std::async(std::launch::async, [&] {
    std::ifstream in(pipe, std::ios::binary);
    return std::string{std::istreambuf_iterator<char>(in), {}};
  });
  writeTo("pipe");
  CHECK(reader.get() == folder.read("a.npz"));
  CHECK(std::filesystem::is_fifo(pipe));
  CHECK(messageOf([&] { writeTo("."); }) == folder.path(".") + ": cannot be written: Is a directory");
}

TEST_CASE("A full disk is the system's fault, and leaves nothing", "[io]") {
  const ScratchFolder folder;
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  rlimit small = limit;
  small.rlim_cur = 1 << 16;
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  bool by_system = false;
  try {
    NpzWriter file(folder.path("full.npz"));
    file.add("x", {1 << 20}, std::vector<float>(1 << 20));
  } catch (const UserError& error) {
    by_system = error.bySystem();
  }
  setrlimit(RLIMIT_FSIZE, &limit);
  std::signal(SIGXFSZ, before);
  CHECK(by_system);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("An output that is also an input is refused, under any name", "[io]") {
  const ScratchFolder folder;
  folder.write("a", "content");
  std::filesystem::create_symlink("a", folder.path("link"));
  std::filesystem::create_hard_link(folder.path("a"), folder.path("other"));
  for (const char* name : {"a", "link", "other"})
    CHECK_THROWS_AS(refuseInput(folder.path(name), {folder.path("none"), folder.path("a")}), UserError);
  refuseInput(folder.path("new"), {folder.path("a"), folder.path("none")});
  std::filesystem::create_symlink("none", folder.path("later"));
  for (const std::string name : {"none", "later", "./none"}) // there is no such file yet
    CHECK_THROWS_AS(refuseInput(folder.path(name), {folder.path("none")}), UserError);
}

TEST_CASE("Members shorter or longer than announced are a defect", "[io]") {
  const ScratchFolder folder;
  ZipWriter file(folder.path("a.zip"));
  file.begin("a", 2);
  CHECK_THROWS(file.write("abc", 3));
  file.write("a", 1);
  CHECK_THROWS(file.begin("b", 1));
}

} // namespace partita::test::io_npz
