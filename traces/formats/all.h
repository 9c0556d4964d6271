// Every format, each defined in its file; formats.cpp lists them.
#pragma once

#include "traces/formats/format.h"

namespace batchflow::traces {

extern const JobFormat kAcme, kBatchflowCsv, kHelios, kIntervals, kItp, kOpenb, kPai2020,
    kPhillyCsv, kPhillyJson, kSacct, kSupercloud, kSwf, kSwfGpus;

}  // namespace batchflow::traces
