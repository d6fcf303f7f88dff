#include "partita/comm/agree.hpp"

namespace partita {

namespace {

std::string joinLines(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

std::vector<std::string> splitLines(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
    lines.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return lines;
}

} // namespace

void collectively(const Communicator& world, const std::function<void()>& work) {
  std::string text;
  try {
    work();
  } catch (const UserError& error) {
    text = joinLines(error.messages());
  }
  const std::int64_t failed = world.minimum(text.empty() ? world.size() : world.rank());
  if (failed == world.size()) return;
  throw AgreedError(splitLines(tellAll(world, std::move(text), static_cast<int>(failed))));
}

std::string tellAll(const Communicator& world, std::string text, int teller) {
  auto length = static_cast<std::int64_t>(text.size());
  world.barrier(); // a broadcast blocks; this wait is watched
  PARTITA_MPI(MPI_Bcast(&length, 1, MPI_INT64_T, teller, world.get()));
  text.resize(static_cast<std::size_t>(length));
  PARTITA_MPI(MPI_Bcast(text.data(), mpiCount(length), MPI_CHAR, teller, world.get()));
  return text;
}

} // namespace partita
