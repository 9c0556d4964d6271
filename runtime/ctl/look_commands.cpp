// Commands that show what a service is doing and change nothing.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "nlohmann/json.hpp"
#include "programs/output/output_flags.h"
#include "programs/output/terminal.h"
#include "runtime/ctl/answer.h"
#include "runtime/ctl/commands.h"
#include "runtime/ctl/service_client.h"

namespace batchflow::ctl {
namespace {

using nlohmann::json;

void print(const std::string& text) {
  output::write_file_atomically("-", text, output::check_interrupted);
}

// A question with one answer: a table for people, or the answer itself.
struct Question {
  const char* name;
  const char* help;
  const char* ask;                    // the question to the service
  json (*for_programs)(const json&);  // the part of the answer; null: all of it
  std::string (*for_people)(const json&);
};
constexpr Question kQuestions[] = {
    {"status", "Storage, memory, preparation, delivery, jobs", "status", nullptr, status_text},
    {"jobs", "The jobs, and what each waits for", "status", jobs_json, jobs_table},
    {"datasets", "The datasets that are served", "status", datasets_json, datasets_table},
    {"nodes", "The nodes of its cluster, and what each has done", "status", nodes_json,
     nodes_table},
    {"cache", "What is kept, by form, tier and share; hit ratios", "status", cache_json,
     cache_text},
    {"describe", "What each job and block waits for, as the engine sees it", "describe", nullptr,
     described_text},
};

void add_question(CLI::App& app, const std::string& service, Action& action,
                  const Question& question) {
  CLI::App* command = app.add_subcommand(question.name, question.help)->fallthrough();
  const auto outputs = std::make_shared<output::OutputFlags>();
  outputs->add(*command, "json", "JSON");
  command->callback([&service, &action, &question, outputs] {
    action = [&service, &question, outputs] {
      outputs->check();
      const json answer = ServiceClient(service).ask(question.ask);
      if (outputs->wanted("json")) {
        const json part = question.for_programs ? question.for_programs(answer) : answer;
        outputs->write("json", part.dump(2) + "\n");
      } else {
        outputs->write_text(question.for_people(answer));
      }
      return 0;
    };
  });
}

struct Rounds {
  unsigned count = 0;
  bool as_json = false;
};

// Asks once a second, and calls `show` with the last two answers.
template <class Show>
int each_second(const std::string& service, const Rounds& rounds, Show show) {
  ServiceClient client(service);
  json before = client.ask("status");
  for (unsigned round = 0; rounds.count == 0 || round < rounds.count; ++round) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    output::check_interrupted();
    json now = client.ask("status");
    show(round, before, now);
    before = std::move(now);
  }
  return 0;
}

int stats(const std::string& service, const Rounds& rounds) {
  return each_second(service, rounds, [&](unsigned round, const json& before, const json& now) {
    if (rounds.as_json) return print(stats_json(before, now).dump() + "\n");
    if (round % 20 == 0) print(stats_head() + "\n");
    print(stats_line(before, now) + "\n");
  });
}

int top(const std::string& service, const Rounds& rounds) {
  const bool terminal = isatty(STDOUT_FILENO) != 0;
  return each_second(service, rounds, [&](unsigned, const json& before, const json& now) {
    if (rounds.as_json) return print(now.dump() + "\n");
    print((terminal ? "\x1b[H\x1b[J" : "") + stats_head() + "\n" + stats_line(before, now) +
          "\n\n" + status_text(now));
  });
}

void add_rounds(CLI::App& app, const std::string& service, Action& action, const char* name,
                const char* help, int (*run)(const std::string&, const Rounds&)) {
  CLI::App* command = app.add_subcommand(name, help)->fallthrough();
  const auto rounds = std::make_shared<Rounds>();
  command->add_option("count", rounds->count, "How many times; default: until interrupted");
  command->add_flag("--json", rounds->as_json, "One JSON object a line");
  command->callback([&service, &action, rounds, run] {
    action = [&service, rounds, run] { return run(service, *rounds); };
  });
}

}  // namespace

void add_look_commands(CLI::App& app, const std::string& service, Action& action) {
  for (const Question& question : kQuestions) add_question(app, service, action, question);
  add_rounds(app, service, action, "stats", "A line a second", stats);
  add_rounds(app, service, action, "top", "The status, shown again each second", top);
}

}  // namespace batchflow::ctl
