#include "partita/comm/link.hpp"

#include "partita/comm/lasting.hpp"
#include "partita/comm/tags.hpp"
#include "partita/comm/wait.hpp"
#include "partita/config/user_error.hpp"
#include "partita/core/clock.hpp"
#include "partita/core/random.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>
#include <thread>
#include <utility>

namespace partita {

namespace {

LinkModel fromEnvironment() {
  const char* text = std::getenv("PARTITA_LINKS");
  return text == nullptr ? LinkModel{} : parseLinkModel(text);
}

LinkModel& current() {
  static LinkModel model = fromEnvironment();
  return model;
}

} // namespace

LinkModel parseLinkModel(const std::string& text) {
  constexpr double largest_whole = 9007199254740992.0; // 2^53: a double holds all whole numbers up to it
  LinkModel model;
  std::istringstream entries(text);
  for (std::string entry; std::getline(entries, entry, ',');) {
    const std::size_t equals = entry.find('=');
    const std::string key = entry.substr(0, equals);
    char* end = nullptr;
    const std::string value = equals == std::string::npos ? "" : entry.substr(equals + 1);
    const double number = std::strtod(value.c_str(), &end);
    const bool is_number = !value.empty() && *end == '\0' && std::isfinite(number) && number >= 0.0;
    const bool is_whole = is_number && number <= largest_whole && number == std::floor(number);
    if (is_number && key == "latency") {
      model.latency = number;
    } else if (is_number && key == "bandwidth") {
      model.bandwidth = number;
    } else if (is_number && key == "delay") {
      model.delay = number;
    } else if (is_whole && key == "seed") {
      model.seed = static_cast<std::int64_t>(number);
    } else if (is_whole && key == "node") {
      model.node = static_cast<std::int64_t>(number);
    } else {
      throw UserError("PARTITA_LINKS: '" + entry +
                      "' is not one of latency=S, bandwidth=B, delay=S, seed=N, node=N (N is a whole number "
                      "up to 2^53)");
    }
  }
  return model;
}

const LinkModel& linkModel() {
  return current();
}

void setLinkModel(const LinkModel& model) {
  current() = model;
}

namespace {

/// The next random number of this rank, in [0, 1).
double nextUniform() {
  static std::uint64_t calls = 0;
  int rank = 0;
  PARTITA_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
  const RandomStream random(linkModel().seed, Stream::link_delay, static_cast<std::uint32_t>(rank));
  return toUniform(random.block(calls++).word[0]);
}

} // namespace

void delayAtRandom() {
  const double longest = linkModel().delay;
  if (longest > 0.0) std::this_thread::sleep_for(std::chrono::duration<double>(longest * nextUniform()));
}

bool postponedAtRandom() {
  return linkModel().delay > 0.0 && nextUniform() < 0.5;
}

double linkSeconds() {
  return std::chrono::duration<double>(Clock::now().time_since_epoch()).count();
}

double SlowLink::after(std::int64_t bytes, double latency) {
  const double bandwidth = linkModel().bandwidth;
  _free = std::max(_free, linkSeconds()) + (bandwidth > 0.0 ? static_cast<double>(bytes) / bandwidth : 0.0);
  return _free + latency;
}

double SlowLink::arrival(std::int64_t bytes) {
  return after(bytes, linkModel().latency);
}

double SlowLink::summed(std::int64_t bytes, int ranks) {
  const std::int64_t parts = 2 * std::int64_t{ranks - 1};
  return after(bytes * parts / ranks, linkModel().latency * static_cast<double>(parts));
}

namespace {

constexpr int questions = 20; // at least one is answered without competition for the cores

void answer(const Communicator& comm, const std::function<double()>& own) {
  for (int rank = 1; rank < comm.size(); ++rank) {
    for (int question = 0; question < questions; ++question) {
      Request().receive(nullptr, 0, MPI_DOUBLE, rank, Tag::clock, comm, "question about the clock").wait();
      const Lasting<double> now(own());
      Request().send(&*now, 1, MPI_DOUBLE, rank, Tag::clock, comm, "time of the clock").wait();
    }
  }
}

/// The offset from the local clock to that of rank 0.
double ask(const Communicator& comm, const std::function<double()>& own) {
  double least = std::numeric_limits<double>::lowest(), most = std::numeric_limits<double>::max();
  for (int question = 0; question < questions; ++question) {
    const Lasting<double> there;
    const double asked = own();
    Request().send(nullptr, 0, MPI_DOUBLE, 0, Tag::clock, comm, "question about the clock").wait();
    Request().receive(&*there, 1, MPI_DOUBLE, 0, Tag::clock, comm, "time of the clock").wait();
    least = std::max(least, *there - own());
    most = std::min(most, *there - asked);
  }
  const bool same_clock = least <= 0.0 && most >= 0.0;
  return same_clock ? 0.0 : (least + most) / 2.0;
}

} // namespace

SharedClock::SharedClock(const Communicator& comm, std::function<double()> own) : _own(std::move(own)) {
  if (comm.rank() == 0) {
    answer(comm, _own);
  } else {
    _offset = ask(comm, _own);
  }
  _offset -= comm.maximum(seconds());
}

} // namespace partita
