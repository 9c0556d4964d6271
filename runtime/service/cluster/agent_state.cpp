#include "runtime/service/cluster/agent_state.h"

#include <fstream>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "programs/output/output.h"
#include "runtime/protocol/secret.h"

namespace batchflow::service {
namespace {

std::filesystem::path term_file(const std::filesystem::path& folder) {
  return folder / "term";
}

TermName read_term(const std::filesystem::path& folder) {
  TermName term;
  std::ifstream(term_file(folder)) >> term.cluster >> term.number;
  return term;
}

std::string state_name(const std::filesystem::path& folder) {
  const std::filesystem::path file = folder / "agent";
  std::string name;
  if (std::ifstream(file) >> name) return name;
  name = protocol::make_secret();
  try {
    output::write_file_atomically(file, name + "\n");
  } catch (const output::OutputError& error) {
    throw ConfigError(fmt::format("{} (--state), or make room", error.what()));
  }
  return name;
}

}  // namespace

AgentState::AgentState(std::filesystem::path folder)
    : folder_(std::move(folder)), name_(state_name(folder_)), term_(read_term(folder_)) {}

std::string AgentState::serve(const TermName& term) {
  term_ = term;
  if (term.cluster.empty()) return {};
  try {
    output::write_file_atomically(term_file(folder_),
                                  fmt::format("{} {}\n", term.cluster, term.number));
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace batchflow::service
