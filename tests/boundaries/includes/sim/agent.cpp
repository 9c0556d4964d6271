// Breaks a rule on purpose: the test boundaries.includes_canary must find it.
#include "runtime/agent.h"
#include <simgrid/s4u.hpp>
