#include "runtime/service/plugins/plugin_apart.h"

#include <cstring>
#include <set>
#include <string>
#include <utility>

#include "core/base/config_value.h"
#include "fmt/format.h"
#include "policies/plugin/load.h"
#include "policies/registry.h"

namespace batchflow::service {
namespace {

std::vector<std::unique_ptr<PluginApart>>& all_apart() {
  static std::vector<std::unique_ptr<PluginApart>> all;
  return all;
}

}  // namespace

PluginApart::PluginApart(std::shared_ptr<const plugin::PluginFile> file,
                         std::shared_ptr<child::PolicyProcess> process,
                         std::vector<std::byte> description)
    : file_(std::move(file)),
      process_(std::move(process)),
      description_(std::move(description)),
      described_(description_, *this, file_->short_hash()) {
  // What a process says may be made up.
  std::multiset<std::string> brought;
  for (const engine::PolicyEntry* one : described_.policies())
    brought.insert(fmt::format("{}={}", engine::policy_kind_name(one->kind()), one->name));
  for (const engine::Preset* one : described_.presets())
    brought.insert(fmt::format("preset={}", one->name));
  const auto& promised = file_->footer().policies;
  if (brought != std::multiset<std::string>(promised.begin(), promised.end()))
    throw ConfigError("its process brings other policies than its footer promises");
  description_ = apart::describe(described_.policies(), described_.presets());
}

void PluginApart::replace(std::shared_ptr<child::PolicyProcess> process) {
  process_ = std::move(process);
  first_instance_ = instances_ + 1;
  has_ended_ = false;
}

bool PluginApart::is_of_process(std::span<const std::byte> call) const {
  apart::CallHeader header{};
  std::memcpy(&header, call.data(), sizeof(header));
  return header.instance >= first_instance_;
}

void PluginApart::tell(std::span<const std::byte> call) {
  if (is_of_process(call)) process_->tell(call);
}

std::optional<std::span<const std::byte>> PluginApart::ask(std::span<const std::byte> call,
                                                           bool recorded) {
  const auto answer = is_of_process(call) ? process_->ask(call) : std::nullopt;
  if (recorded) answers_apart().add(answer);
  return answer;
}

std::span<const std::unique_ptr<PluginApart>> plugins_apart() {
  return all_apart();
}

PluginApart* plugin_apart(const std::string& hash) {
  for (const auto& one : all_apart()) {
    if (one->file().hash() == hash) return one.get();
  }
  return nullptr;
}

PluginApart& add_plugin_apart(std::unique_ptr<PluginApart> one) {
  const std::vector<const engine::PolicyEntry*> brought = one->described().policies();
  const auto presets = one->described().presets();
  plugin::check_fit(brought, presets);
  for (const engine::PolicyEntry* entry : brought) policies::add_policy(*entry);
  for (const engine::Preset* preset : presets) engine::add_preset(*preset);
  return *all_apart().emplace_back(std::move(one));
}

apart::AnswerRecord& answers_apart() {
  static apart::AnswerRecord record;
  return record;
}

std::vector<RunningPlugin> running_plugins() {
  std::vector<RunningPlugin> all;
  for (const plugin::Plugin* one : plugin::loaded())
    all.push_back({&one->file(), one->policies(), nullptr});
  for (const auto& one : plugins_apart())
    all.push_back({&one->file(), one->described().policies(), one.get()});
  return all;
}

std::string hash_of(std::string_view from) {
  for (const RunningPlugin& one : running_plugins())
    if (one.file->short_hash() == from) return one.file->hash();
  return std::string(from);
}

}  // namespace batchflow::service
