#include "partita/io/protobuf.hpp"

#include "data_files.hpp"
#include "support/catch.hpp"

namespace partita::test::io_protobuf {

namespace {

std::string bytesOf(const ProtobufMessage& message) {
  const ScratchFolder folder;
  message.write(folder.path("message"));
  const std::string bytes = folder.read("message");
  CHECK(bytes.size() == message.size());
  return bytes;
}

ProtobufMessage withInteger(int field, std::int64_t value) {
  ProtobufMessage message;
  message.integer(field, value);
  return message;
}

} // namespace

TEST_CASE("Protobuf integers are varints", "[io]") {
  CHECK(bytesOf(withInteger(1, 0)) == std::string("\x08\x00", 2));
  CHECK(bytesOf(withInteger(1, 127)) == "\x08\x7f");
  CHECK(bytesOf(withInteger(1, 150)) == "\x08\x96\x01"); // the example of the format's documentation
  CHECK(bytesOf(withInteger(20, 1)) == "\xa0\x01\x01");
  CHECK(bytesOf(withInteger(1, -1)) == "\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01");
}

TEST_CASE("Protobuf texts, reals, data and messages inside messages", "[io]") {
  const std::string data = "wxyz";
  ProtobufMessage inner, message;
  inner.text(2, "testing");
  inner.data(9, data.data(), data.size());
  inner.integer(1, 5);
  message.real(2, 1.0F);
  message.message(3, inner);
  message.message(3, withInteger(1, 150));
  const std::string inner_bytes = "\x12\x07testing\x4a\x04wxyz\x08\x05";
  CHECK(bytesOf(inner) == inner_bytes);
  CHECK(bytesOf(message) ==
        std::string("\x15\x00\x00\x80\x3f", 5) + "\x1a\x11" + inner_bytes + "\x1a\x03\x08\x96\x01");
}

TEST_CASE("Protobuf messages of 2 GB and more are refused before anything is written", "[io]") {
  const ScratchFolder folder;
  const char nothing = 0;
  ProtobufMessage large, outer;
  large.data(9, &nothing, (std::uint64_t{1} << 31) - 6); // one byte of key, five of length
  outer.message(1, large);
  CHECK(large.size() == std::uint64_t{1} << 31);
  CHECK(outer.size() == (std::uint64_t{1} << 31) + 6);
  const std::string path = folder.path("large.onnx");
  for (const ProtobufMessage& message : {large, outer}) {
    const std::string told = messageOf([&] { message.write(path); });
    CHECK(told == path + ": the network exceeds the limit of the format, 2 GB; export it as .npz");
  }
  CHECK(std::filesystem::is_empty(folder.path()));
}

} // namespace partita::test::io_protobuf
