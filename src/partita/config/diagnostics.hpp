#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace partita {

/// Where a value was written: the place as messages name it, and its rank among all places.
struct Place {
  std::string label;
  std::uint64_t order = 0;
};

/// A text that sets parameters: the deck, or one override of the command line.
class Source {
 public:
  static Source deck(const std::string& name);
  static Source commandLine(const std::string& text, std::size_t index);

  /// Line and column count from 1; line 0 stands for the text as a whole.
  Place at(std::size_t line, std::size_t column) const;

 private:
  std::string _label;
  std::uint64_t _order = 0; ///< 0: the deck
};

/// Collects the mistakes of a deck and its overrides, so that a user sees them all at once.
class Diagnostics {
 public:
  explicit Diagnostics(const Source& deck) : _deck(deck.at(0, 0)) {}

  /// Remembers where `name` was set last, for messages about combinations.
  void setPlace(const std::string& name, const Place& place) { _places[name] = place; }
  bool isSet(const std::string& name) const { return _places.count(name) != 0; }
  bool onCommandLine(const std::string& name) const;

  void error(const Place& place, const std::string& name, const std::string& message);
  /// Are there as many mistakes as a user will read? Further ones are only counted.
  bool full() const { return _errors.size() >= most_errors; }
  void countMore() { ++_more; }

  /// Checks a condition on several parameters and reports it under the first one's name. Silent if one of
  /// them is wrong by itself, because its value is then not what the user meant.
  void check(bool holds, const std::vector<std::string>& names, const std::string& message);

  /// Throws UserError with all mistakes in the order of their places.
  void throwIfAny();

 private:
  bool failed(const std::string& name) const; ///< itself, or an element of it

  static constexpr std::size_t most_errors = 100;
  Place _deck;
  std::map<std::string, Place> _places;
  std::set<std::string> _failed;
  std::vector<std::pair<std::uint64_t, std::string>> _errors;
  std::size_t _more = 0;
};

} // namespace partita
