#include "partita/train/compare_data.hpp"

#include "partita/config/user_error.hpp"
#include "partita/core/log.hpp"
#include "partita/data/standardisation.hpp"
#include "partita/io/output_file.hpp"

namespace partita {

void compareLabels(const RunFacts& facts, const DataSets& sets, const std::string& file, bool keeps_state) {
  const std::vector<std::int64_t> before = labelsOfClasses(facts.label_values, facts.classes),
                                  now = labelsOfClasses(sets.label_values, sets.classes);
  // Labels of a file that are the numbers of classes, of which some may be missing.
  const auto numbered = [](const std::vector<std::int64_t>& labels) {
    return labels.front() == 0 && labels.back() == static_cast<std::int64_t>(labels.size()) - 1;
  };
  const bool other_kind = facts.label_values.empty() || sets.label_values.empty();
  if (before == now || (other_kind && numbered(before) && numbered(now))) return;
  const std::string message = file + ": was trained on labels " + std::to_string(before.front()) + " to " +
                              std::to_string(before.back()) + ", which are not those of this training set";
  if (keeps_state) throw UserError(message);
  Log::warning(message);
}

void compareStandardisation(const RunFacts& facts, const DataSets& sets, const std::string& file) {
  if (sets.shift.empty() || (facts.shift == sets.shift && facts.scale == sets.scale)) return;
  Log::warning(file + ": was trained on features with another mean or deviation; what the network computes "
                      "changes with them");
}

void compareTestFeatures(const RunFacts& facts, const DataSets& sets, const std::string& file) {
  if (!hasAnotherScale(sets.test.features, {facts.shift, facts.scale})) return;
  Log::warning(file + ": was trained on features with another mean or deviation than those of the test set, "
                      "which seem to be in other units");
}

void compareHeldOut(const DataSection& before, const DataSection& now, bool same_seed, bool trains) {
  const auto same = [&](const std::string& was, const std::string& is) {
    return was.empty() ? is.empty() : !is.empty() && isSameFile(dataPath(before, was), dataPath(now, is));
  };
  const bool same_file = before.kind == now.kind && before.features == now.features &&
                         before.labels == now.labels && same(before.train_images, now.train_images) &&
                         same(before.train_file, now.train_file);
  if (now.isGenerated() || !same_file) return;
  const bool same_samples = same_seed && before.samples == now.samples && before.sequence == now.sequence &&
                            before.vocabulary == now.vocabulary && before.test_fraction == now.test_fraction;
  const bool same_validation = same_samples && before.validation == now.validation;
  if (now.splits() && now.test_file.empty() && !(now.test_fraction > 0.0 ? same_samples : same_validation))
    Log::warning("the test set is another part of the training file than before; the network may have been "
                 "trained on its samples");
  else if (trains && now.validation > 0.0 && !same_validation)
    Log::warning("the validation set is another part of the training set than before; the network may have "
                 "been trained on its samples");
}

} // namespace partita
