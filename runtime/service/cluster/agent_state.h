// What an agent keeps in its state folder: its own name, and the newest term that it has served.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/service/cluster/terms.h"

namespace batchflow::service {

class AgentState {
 public:
  // Throws ConfigError if the folder cannot be written.
  explicit AgentState(std::filesystem::path folder);

  // A name that no other state folder has. It tells an agent that comes back from another one with
  // the same name.
  const std::string& name() const { return name_; }
  const TermName& term() const { return term_; }
  // Keeps the term, also for an agent that is started again. What was there before stays if it
  // cannot be written. Answers why; empty: it is written.
  std::string serve(const TermName& term);

 private:
  const std::filesystem::path folder_;
  const std::string name_;
  TermName term_;
};

}  // namespace batchflow::service
