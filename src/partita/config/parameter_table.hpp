#pragma once

#include "partita/config/names.hpp"
#include "partita/config/run_config.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

namespace partita {

/// The range of a number; an end belongs to the range unless it is open. Ends may be infinite.
struct Interval {
  double low, high;
  bool low_open = false, high_open = false;

  bool contains(double value) const;
  std::string text() const; ///< ">= 1", "> 0", "[0, 1)"
};

Interval atLeast(double low);
Interval above(double low);
Interval within(double low, double high);
Interval withinBelow(double low, double high); ///< without `high` itself

/// A field of an enumeration type, accessed by the names of its values.
struct Choice {
  std::vector<std::string> names;
  std::function<std::size_t()> get;
  std::function<void(std::size_t)> set;
};

template <class Enum>
Choice choice(Enum& field) {
  return {namesOf<Enum>(), [&field] { return static_cast<std::size_t>(field); },
          [&field](std::size_t index) { field = static_cast<Enum>(index); }};
}

/// Where stages begin: the name of a rule, or the list itself.
struct Cuts {
  CutRule* rule;
  std::vector<std::int64_t>* list;

  static const std::vector<std::string>& ruleNames();
};

/// One integer for all axes or one per axis; for paddings also "same".
struct Axes {
  AxisSizes* sizes;
  bool may_be_same = false;
};

/// A list of integers, which may be empty.
using IntegerList = std::vector<std::int64_t>*;

/// The field that a parameter sets; its type is the parameter's type.
using Target = std::variant<bool*, std::int64_t*, double*, std::string*, Choice, Cuts,
                            std::vector<LayerSpec>*, Axes, IntegerList>;

/// Must a deck set it? For some keys of the last layer, the number of classes is used if they are
/// missing.
enum class Required { never, but_last, always };

/// The choices of another key of the section with which alone a parameter is read; none: with all of them.
struct Condition {
  std::string key;
  std::vector<std::string> choices;
};

/// One key of a deck. Its default is the value of the field in a default-constructed struct.
struct Parameter {
  std::string key;
  Target target;
  Interval range; ///< numbers only
  std::string unit;
  std::string text;                    ///< what it means, in one sentence without full stop
  Required required = Required::never; ///< keys of layers: integers, which must be above 0, and lists
  std::string empty_word = {};         ///< lists of layers: a word that stands for the empty list
  Condition only_with = {};

  std::string typeName() const; ///< "integer"
  std::string allowed() const;  ///< ">= 1", "'he', 'cut'"; empty if any value is allowed
  std::string hint() const;     ///< " (allowed >= 1, samples)", or nothing
  bool empty() const;           ///< is it 0, or an empty list?
};

/// A section of a deck, or the keys of one type of layer.
struct Section {
  std::string name, text;
  std::vector<Parameter> parameters{};

  Parameter& add(const std::string& key, Target target, const std::string& text);
  Parameter& add(const std::string& key, Target target, Interval range, const std::string& unit,
                 const std::string& text);

  const Parameter* find(const std::string& key) const; ///< null if there is none
  std::vector<std::string> keys() const;
};

/// All sections and keys that a deck may have.
struct ParameterTable {
  std::vector<Section> sections;

  const Section* find(const std::string& section) const; ///< null if there is none
  std::vector<std::string> names() const;                ///< of the sections

  std::vector<std::string> keys() const; ///< of all sections

  /// The section that a key belongs to, as "optimiser/momentum"; empty if there is none.
  std::string home(const std::string& key) const;
};

} // namespace partita
