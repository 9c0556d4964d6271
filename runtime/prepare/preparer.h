// A preparer with given inner loops, for tests that compare them.
#pragma once

#include "runtime/prepare/kernels.h"
#include "runtime/prepare/pipeline.h"

namespace batchflow::prepare {

std::unique_ptr<Preparer> make_preparer(const Kernels& kernels,
                                        std::shared_ptr<memory::ScratchBudget> scratch = nullptr);

}  // namespace batchflow::prepare
