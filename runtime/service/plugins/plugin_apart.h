// A plugin that decides in a process of its own: what the engine's proxies call. When its process
// is replaced, policies that were made before get no answers any more.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policies/apart/described.h"
#include "policies/apart/playback.h"
#include "policies/plugin/plugin_file.h"
#include "runtime/child/policy_process.h"

namespace batchflow::service {

class PluginApart final : public apart::Answering {
 public:
  // `description`: what the process brings. Throws ConfigError.
  PluginApart(std::shared_ptr<const plugin::PluginFile> file,
              std::shared_ptr<child::PolicyProcess> process, std::vector<std::byte> description);

  const plugin::PluginFile& file() const { return *file_; }
  const apart::Described& described() const { return described_; }
  std::span<const std::byte> description() const { return description_; }
  const child::PolicyProcess& process() const { return *process_; }
  // For policies that are made from now on.
  void replace(std::shared_ptr<child::PolicyProcess> process);
  // How often it was lost, and replaced.
  std::uint32_t lost() const { return lost_; }
  void count_lost() { ++lost_; }
  // It answers no more, until its process is replaced.
  void end() {
    process_->reject("it was ejected");
    has_ended_ = true;
  }
  bool has_ended() const { return has_ended_; }

  std::uint32_t new_instance() override { return ++instances_; }
  void tell(std::span<const std::byte> call) override;
  std::optional<std::span<const std::byte>> ask(std::span<const std::byte> call,
                                                bool recorded) override;
  void reject(std::string_view why) override { process_->reject(why); }

 private:
  bool is_of_process(std::span<const std::byte> call) const;

  std::shared_ptr<const plugin::PluginFile> file_;
  std::shared_ptr<child::PolicyProcess> process_;
  std::vector<std::byte> description_;
  apart::Described described_;
  std::uint32_t instances_ = 0;
  std::uint32_t first_instance_ = 1;  // of the process
  std::uint32_t lost_ = 0;
  bool has_ended_ = false;  // as end() says
};

// The plugins of this process that run apart. Like plugins that are loaded into it, they stay until
// it ends, since policies name them.
std::span<const std::unique_ptr<PluginApart>> plugins_apart();
// Null: there is none with this hash.
PluginApart* plugin_apart(const std::string& hash);
// Adds what it brings to the lists of policies and presets. Throws ConfigError.
PluginApart& add_plugin_apart(std::unique_ptr<PluginApart> one);
// What all of them answered, for the journal.
apart::AnswerRecord& answers_apart();

// A plugin that runs in this process, or apart.
struct RunningPlugin {
  const plugin::PluginFile* file;
  std::vector<const engine::PolicyEntry*> policies;
  const PluginApart* apart;  // null: it runs in this process
};
std::vector<RunningPlugin> running_plugins();

// The hash of a running plugin, by its short hash. If none has that, answers `from` as it is.
std::string hash_of(std::string_view from);

}  // namespace batchflow::service
