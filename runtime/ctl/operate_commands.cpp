// What operates a service: its end, its configuration, its users, and what it reads ahead.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "configs/reader/output_flags.h"
#include "configs/reader/terminal.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/ctl/asking.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/order.h"
#include "runtime/ctl/tables.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

// Until all of it has been read. Interrupted, the service goes on alone.
int warm(const std::string& service, const std::string& dataset, const std::string& wanted,
         const OutputFlags& outputs) {
  outputs.check();
  Asking asking(service);
  const std::string pipeline =
      asking.ask("warm", {{"dataset", dataset}, {"pipeline", wanted}}).value("pipeline", "");
  std::string how_far;
  json told;
  {
    ProgressBar bar("warming " + printable(dataset));
    for (bool over = false; !over;) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      check_interrupted();
      over = true;  // unless it is still there
      const json answer = asking.ask("warm_list");
      for (const json& one : answer.at("warming")) {
        if (one.value("dataset", "") != dataset || one.value("pipeline", "") != pipeline) continue;
        over = one.value("over", true);
        told = one;
        if (const std::string problem = one.value("problem", ""); !problem.empty())
          throw Failure(dataset + ": " + problem);
        const auto done = one.value("samples", std::uint64_t{0});
        const auto of = one.value("of", std::uint64_t{0});
        how_far = fmt::format("{} of {} samples", done, of);
        bar.show(static_cast<double>(done) / static_cast<double>(std::max<std::uint64_t>(1, of)),
                 how_far);
      }
    }
  }
  if (outputs.wanted("json")) {
    outputs.write("json", told.dump(2) + "\n");
  } else {
    outputs.write_text(printable(fmt::format("{}: {} for {}", dataset, how_far, pipeline)) + "\n");
  }
  return 0;
}

void add_quota_command(CLI::App& app, const std::string& service, Action& action) {
  CLI::App* quota = app.add_subcommand("quota", "What users may take")->fallthrough();
  quota->require_subcommand(1);
  CLI::App* list =
      quota->add_subcommand("list", "Each user's limits, and what he takes")->fallthrough();
  const auto outputs = std::make_shared<OutputFlags>();
  outputs->add(*list, "json", "JSON");
  list->callback([&service, &action, outputs] {
    action = [&service, outputs] {
      outputs->check();
      const json answer = Asking(service).ask("quota_list");
      if (outputs->wanted("json")) {
        outputs->write("json", answer.dump(2) + "\n");
      } else {
        outputs->write_text(quotas_table(answer));
      }
      return 0;
    };
  });
  CLI::App* set =
      quota->add_subcommand("set", "Changes limits of a user, until the next reload or start")
          ->fallthrough();
  const auto user = std::make_shared<std::string>();
  const auto limits = std::make_shared<std::vector<std::string>>();
  set->add_option("user", *user, "A name, or a number")->required();
  set->add_option("limits", *limits,
                  "key=value: jobs, batch_bytes, connections, messages_per_s, frame_bytes, weight")
      ->required();
  add_order(*set, service, action, "quota_set", [user, limits] {
    return json{{"user", *user}, {"limits", *limits}};
  });
}

}  // namespace

void add_operate_commands(CLI::App& app, const std::string& service, Action& action) {
  add_order(
      *app.add_subcommand("drain", "Jobs end their epochs and are let go; then the service ends")
           ->fallthrough(),
      service, action, "drain");
  add_order(
      *app.add_subcommand(
              "reload", "The node file is read again, as on SIGHUP: all of it is taken, or nothing")
           ->fallthrough(),
      service, action, "reload", nothing,
      [](const json& answer) { return printable(answer.value("text", "")) + "\n"; }, true);
  CLI::App* ahead =
      app.add_subcommand("warm", "Reads a data set once, for what the cache keeps of it")
          ->fallthrough();
  const auto dataset = std::make_shared<std::string>();
  const auto pipeline = std::make_shared<std::string>();
  ahead->add_option("dataset", *dataset, "As `datasets` names it")->required();
  ahead->add_option("--pipeline", *pipeline,
                    "For jobs of this pipeline; default: the data set's own");
  const auto warmed = std::make_shared<OutputFlags>();
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
       {Keeping{"pin", "The cache keeps it as if a job read it, until unpin or the next start"},
        Keeping{"unpin", "It leaves when no job reads it and others want the room"},
        Keeping{
            "drop",
            "What the cache keeps of it leaves now, pinned or not; no job may be reading it"}}) {
    CLI::App* command = app.add_subcommand(one.name, one.help)->fallthrough();
    const auto kept = std::make_shared<std::string>();
    command->add_option("dataset", *kept, "As `datasets` names it")->required();
    add_order(*command, service, action, one.name, [kept] { return json{{"dataset", *kept}}; });
  }
  add_quota_command(app, service, action);
}

}  // namespace batchflow::ctl
