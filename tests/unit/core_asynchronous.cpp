#include "partita/core/asynchronous.hpp"

#include <filesystem>
#include <stdexcept>

#include "support/catch.hpp"
#include "support/default_space.hpp"
#include "support/matrices.hpp"

namespace partita::test::core_asynchronous {

namespace {

constexpr DefaultSpace space;
constexpr std::int64_t size = 1 << 18;

StoredVector fileOf(const Values& values) {
  const StoredVector stored({Offload::file, std::filesystem::temp_directory_path().string()},
                            "partita::test::stored", static_cast<std::int64_t>(values.size()));
  const std::vector<Real> reals(values.begin(), values.end());
  stored.copyIn(space, reals.data());
  return stored;
}

} // namespace

TEST_CASE("Work that waits for an event sees the copies before it", "[core]") {
  const Values values = normals(size, 1);
  const StoredVector from = fileOf(values), to = fileOf(Values(values.size(), 0.0));
  for (const bool from_disk : {false, true}) {
    const Vector buffer = vectorOf(Values(values.size(), 0.0));
    CopyStream in(from_disk), out(from_disk);
    const Event loaded, saved, never;
    never.holdBack(in);
    never.holdBack(space);
    for (const std::int64_t half : {std::int64_t{0}, size / 2}) {
      const Vector part(buffer.data() + half, size / 2);
      in.load(from, half, part);
      loaded.set(in);
      loaded.holdBack(out); // one copy stream waits for the other
      out.save(part, to, half);
      saved.set(out);
      saved.holdBack(in);
    }
    saved.holdBack(space);
    CHECK(to.values(space) == std::vector<Real>(values.begin(), values.end()));
    to.clear(space);
  }
}

TEST_CASE("A thread that copies has no share in the buffers", "[core]") {
  const StoredVector stored = fileOf(normals(size, 1));
  const Vector buffer = vectorOf(Values(static_cast<std::size_t>(size), 0.0));
  CopyStream copies(true);
  for (int i = 0; i < 20; ++i) {
    copies.load(stored, 0, buffer);
    copies.save(buffer, stored, 0);
    CHECK(buffer.use_count() == 1); // while some of the copies are under way
  }
}

TEST_CASE("Copies end before their stream does, whatever else ends", "[core]") {
  const Values values = normals(size, 1);
  const StoredVector zeros = fileOf(Values(values.size(), 0.0)), last = fileOf(values);
  const Vector buffer = vectorOf(Values(values.size(), 0.0));
  try {
    CopyStream copies(true);
    for (int i = 0; i < 20; ++i) copies.load(zeros, 0, buffer);
    copies.load(last, 0, buffer);
    throw std::runtime_error("the end");
  } catch (const std::runtime_error&) {
    if (device_is_host) CHECK(buffer.data()[size - 1] == static_cast<Real>(values.back()));
  }
}

TEST_CASE("An event is reached when the work before it is complete", "[core]") {
  const StoredVector from = fileOf(normals(size, 1)),
                     to = fileOf(Values(static_cast<std::size_t>(size), 0.0));
  const Vector buffer = vectorOf(Values(static_cast<std::size_t>(size), 0.0));
  for (const bool from_disk : {false, true}) {
    CopyStream copies(from_disk);
    const Event never, own, copied;
    CHECK(never.reached());
    own.set(space);
    fence(space, "partita::test::own");
    CHECK(own.reached());
    to.clear(space);
    copies.load(from, 0, buffer);
    copies.save(buffer, to, 0);
    copied.set(copies);
    while (!copied.reached()) {
    }
    if (device_is_host) CHECK(to.onHost()[size - 1] == from.onHost()[size - 1]);
  }
}

TEST_CASE("Copies from a disk overlap work that does not depend on them", "[core]") {
  if (!device_is_host) return; // a GPU copies unpinned memory synchronously
  const StoredVector from = fileOf(normals(size, 1));
  const Vector to = vectorOf(Values(static_cast<std::size_t>(size), 0.0));
  const StoredVector flag = fileOf({1.0}), result = fileOf({0.0});
  const Vector carrier = vectorOf({0.0});
  bool beside = false;
  for (int attempt = 0; attempt < 5 && !beside; ++attempt) { // this thread may be the idle one
    CopyStream copy_stream(true);
    const Event done;
    result.clear(space);
    for (int i = 0; i < 1000; ++i) copy_stream.load(from, 0, to); // 1 GB
    copy_stream.load(flag, 0, carrier);
    copy_stream.save(carrier, result, 0);
    done.set(copy_stream);
    beside = *const_cast<const volatile Real*>(result.onHost()) == Real(0);
    done.holdBack(space);
    CHECK(*result.onHost() == Real(1));
  }
  CHECK(beside);
}

} // namespace partita::test::core_asynchronous
