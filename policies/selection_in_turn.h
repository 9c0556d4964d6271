// The common part of selection policies that let a job take its blocks in turn.
#pragma once

#include "core/engine/policy.h"

namespace batchflow::policies {

class InTurn : public engine::SelectionPolicy {
 public:
  std::size_t choose(const engine::SelectionView& view) override {
    return !view.candidates.empty() && view.candidates.front().ready ? 0 : engine::kNoChoice;
  }
  bool looks_behind_ready() const override { return false; }
};

}  // namespace batchflow::policies
