// batchflowctl: what a service is doing, for people and for programs.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "runtime/client/session.h"
#include "runtime/ctl/tables.h"
#include "runtime/protocol/channel.h"

namespace {

using namespace batchflow;
using nlohmann::json;

constexpr std::chrono::seconds kAnswerWithin{10};

// The service answered that it will not, or did not answer.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Asking {
 public:
  explicit Asking(const std::string& service) {
    std::string tried;
    for (const std::string& address : service_addresses(service.c_str())) {
      std::string problem;
      channel_ = Channel::connect(address, problem);
      if (channel_.is_open()) return;
      tried += (tried.empty() ? "" : "; ") + problem;
    }
    throw Failure(
        fmt::format("no service answers ({}); start batchflowd, or name its socket with "
                    "--service",
                    tried));
  }

  json ask(const std::string& name, json arguments = json::object()) {
    const auto deadline = Channel::Clock::now() + kAnswerWithin;
    const json question = {
        {"type", "command"}, {"name", name}, {"arguments", std::move(arguments)}};
    if (!channel_.send(question.dump(), {}, deadline)) throw Failure(channel_.problem());
    const std::optional<Frame> frame = channel_.receive(deadline);
    if (!frame)
      throw Failure(channel_.is_open() ? fmt::format("the service did not answer within {} s",
                                                     kAnswerWithin.count())
                                       : channel_.problem());
    json answer = json::parse(frame->text, nullptr, false);
    if (!answer.is_object()) throw Failure("the service answered with something that is no JSON");
    if (answer.value("type", "") != "answer")
      throw Failure(answer.value("message", "the service refused without a word"));
    answer.erase("type");
    return answer;
  }

 private:
  Channel channel_;
};

void print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  if (std::fflush(stdout) != 0) throw Failure("what was to be printed could not be written");
}

void stats(Asking& service, unsigned lines) {
  json before = service.ask("status");
  for (unsigned line = 0; lines == 0 || line < lines; ++line) {
    if (line % 20 == 0) print(ctl::stats_head() + "\n");
    std::this_thread::sleep_for(std::chrono::seconds(1));
    json now = service.ask("status");
    print(ctl::stats_line(before, now) + "\n");
    before = std::move(now);
  }
}

void top(Asking& service, unsigned rounds) {
  json before = service.ask("status");
  for (unsigned round = 0; rounds == 0 || round < rounds; ++round) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    json now = service.ask("status");
    const bool terminal = isatty(STDOUT_FILENO) != 0;
    print((terminal ? "\x1b[H\x1b[J" : "") + ctl::stats_head() + "\n" +
          ctl::stats_line(before, now) + "\n\n" + ctl::status_text(now));
    before = std::move(now);
  }
}

int run(int argc, char** argv) {
  CLI::App app("What a BatchFlow service is doing.", "batchflowctl");
  app.require_subcommand(1);
  app.set_version_flag("--version", BATCHFLOW_VERSION);
  std::string service;
  bool as_json = false;
  unsigned count = 0;
  app.add_option("--service", service,
                 "Its socket; default: BATCHFLOW_SERVICE, this user's, then the machine's");
  const auto command = [&](const char* name, const char* help, bool counts) {
    CLI::App* made = app.add_subcommand(name, help)->fallthrough();
    if (counts) {
      made->add_option("count", count, "How many times; default: until interrupted");
    } else {
      made->add_flag("--json", as_json, "For programs");
    }
    return made;
  };
  CLI::App* const status = command("status", "Storage, memory, preparation, delivery, jobs", false);
  CLI::App* const jobs = command("jobs", "The jobs, and what each waits for", false);
  CLI::App* const datasets = command("datasets", "The datasets that are served", false);
  CLI::App* const stats_command = command("stats", "A line a second", true);
  CLI::App* const describe =
      command("describe", "Who waits for what, as the engine sees it", false);
  command("top", "The status, anew each second", true);
  std::string policy_text, job_name;
  CLI::App* const policy = app.add_subcommand("policy", "The policies that decide")->fallthrough();
  policy->require_subcommand(1);
  CLI::App* const set =
      policy->add_subcommand("set", "Put another in the place of one that runs; no batch is lost");
  set->add_option("policy", policy_text, "kind=name[:parameter=value]")->required();
  CLI::App* const job = app.add_subcommand("job", "One job")->fallthrough();
  job->require_subcommand(1);
  CLI::App* const end_job = job->add_subcommand("kill", "End it; its ranks are told");
  end_job->add_option("name", job_name, "As `jobs` names it")->required();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Asking connection(service);
  if (*set) {
    connection.ask("policy_set", {{"policy", policy_text}});
  } else if (*end_job) {
    connection.ask("job_kill", {{"job", job_name}});
  } else if (*stats_command) {
    stats(connection, count);
  } else if (*describe) {
    print(connection.ask("describe").value("text", "") + "\n");
  } else if (*status || *jobs || *datasets) {
    const json answer = connection.ask("status");
    if (as_json) {
      print((*jobs       ? json{{"jobs", answer.at("jobs")}}
             : *datasets ? json{{"datasets", answer.at("datasets")}}
                         : answer)
                .dump(2) +
            "\n");
    } else {
      print(*jobs       ? ctl::jobs_table(answer)
            : *datasets ? ctl::datasets_table(answer)
                        : ctl::status_text(answer));
    }
  } else {
    top(connection, count);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "batchflowctl: %s\n", error.what());
    return 1;
  }
}
