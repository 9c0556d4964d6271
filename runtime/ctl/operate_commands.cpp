// Commands that operate a service: they end it, reload its configuration, change limits of users,
// and change what the cache keeps.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/service_client.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

// Waits until all of the dataset has been read. If this is interrupted, the service goes on.
int warm(const std::string& service, const std::string& dataset, const std::string& wanted,
         const output::OutputFlags& outputs) {
  outputs.check();
  ServiceClient client(service);
  const std::string pipeline =
      client.ask("warm", {{"dataset", dataset}, {"pipeline", wanted}}).value("pipeline", "");
  std::string progress;
  json last;
  {
    output::ProgressBar bar("warming " + output::printable(dataset));
    for (bool over = false; !over;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      output::check_interrupted();
      over = true;  // unless the list still has it
      const json answer = client.ask("warm_list");
      for (const json& one : answer.at("warming")) {
        if (one.value("dataset", "") != dataset || one.value("pipeline", "") != pipeline) continue;
        over = one.value("over", true);
        last = one;
        if (const std::string problem = one.value("problem", ""); !problem.empty())
          throw Failure(dataset + ": " + problem);
        const auto done = one.value("samples", std::uint64_t{0});
        const auto of = one.value("of", std::uint64_t{0});
        progress = fmt::format("{} of {} samples", done, of);
        bar.show(static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(1, of)),
                 progress);
      }
    }
  }
  if (outputs.wanted("json")) {
    outputs.write("json", last.dump(2) + "\n");
  } else {
    outputs.write_text(
        output::printable(fmt::format("{}: {} for {}", dataset, progress, pipeline)) + "\n");
  }
  return 0;
}

void add_quota_command(CLI::App& app, const std::string& service, Action& action) {
  CLI::App* quota = app.add_subcommand("quota", "What users may take")->fallthrough();
  quota->require_subcommand(1);
  CLI::App* list = quota->add_subcommand("list", "The limits of each user, and what the user takes")
                       ->fallthrough();
  const auto outputs = std::make_shared<output::OutputFlags>();
  outputs->add(*list, "json", "JSON");
  list->callback([&service, &action, outputs] {
    action = [&service, outputs] {
      outputs->check();
      const json answer = ServiceClient(service).ask("quota_list");
      if (outputs->wanted("json")) {
        outputs->write("json", answer.dump(2) + "\n");
      } else {
        outputs->write_text(quotas_table(answer));
      }
      return 0;
    };
  });
  CLI::App* set =
      quota->add_subcommand("set", "Change limits of a user, until the next reload or start")
          ->fallthrough();
  const auto user = std::make_shared<std::string>();
  const auto limits = std::make_shared<std::vector<std::string>>();
  set->add_option("user", *user, "A name, or a number")->required();
  set->add_option("limits", *limits,
                  "key=value: jobs, batch_bytes, connections, messages_per_s, frame_bytes, weight")
      ->required();
  add_request(*set, service, action, "quota_set", [user, limits] {
    return json{{"user", *user}, {"limits", *limits}};
  });
}

}  // namespace

void add_operate_commands(CLI::App& app, const std::string& service, Action& action) {
  add_request(*app.add_subcommand("drain", "Let jobs end their epochs, then end the service")
                   ->fallthrough(),
              service, action, "drain");
  add_request(
      *app.add_subcommand(
              "reload",
              "Read the node file again, as on SIGHUP: all of it takes effect, or nothing")
           ->fallthrough(),
      service, action, "reload", nothing,
      [](const json& answer) { return output::printable(answer.value("text", "")) + "\n"; }, true);
  CLI::App* ahead =
      app.add_subcommand("warm",
                         "Read a dataset once, so that the cache keeps as much of it as it can")
          ->fallthrough();
  const auto dataset = std::make_shared<std::string>();
  const auto pipeline = std::make_shared<std::string>();
  ahead->add_option("dataset", *dataset, "As `datasets` names it")->required();
  ahead->add_option("--pipeline", *pipeline,
                    "For jobs with this pipeline; default: the dataset's own");
  const auto warmed = std::make_shared<output::OutputFlags>();
  warmed->add(*ahead, "json", "JSON");
  ahead->callback([&service, &action, dataset, pipeline, warmed] {
    action = [&service, dataset, pipeline, warmed] {
      return warm(service, *dataset, *pipeline, *warmed);
    };
  });
  struct Keeping {
    const char* name;
    const char* help;
  };
  for (const Keeping& one :
       {Keeping{"pin", "Keep a dataset in the cache as if a job read it, until unpin or a restart"},
        Keeping{"unpin", "Let a dataset leave the cache when no job reads it"},
        Keeping{"drop",
                "Remove a dataset from the cache now, pinned or not; no job may read it"}}) {
    CLI::App* command = app.add_subcommand(one.name, one.help)->fallthrough();
    const auto kept = std::make_shared<std::string>();
    command->add_option("dataset", *kept, "As `datasets` names it")->required();
    add_request(*command, service, action, one.name, [kept] { return json{{"dataset", *kept}}; });
  }
  add_quota_command(app, service, action);
}

}  // namespace batchflow::ctl
