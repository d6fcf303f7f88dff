#pragma once

#include "partita/comm/link.hpp"

namespace partita::test {

/// Emulates links during the life of the object.
class LinkScope {
 public:
  explicit LinkScope(const LinkModel& model) : _before(linkModel()) { setLinkModel(model); }
  ~LinkScope() { setLinkModel(_before); }
  LinkScope(const LinkScope&) = delete;
  LinkScope& operator=(const LinkScope&) = delete;

 private:
  LinkModel _before;
};

} // namespace partita::test
