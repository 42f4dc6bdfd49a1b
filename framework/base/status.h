// Macros that pass an absl::Status on to the caller.
#pragma once

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define BELFRY_CONCAT_INNER(a, b) a##b
#define BELFRY_CONCAT(a, b) BELFRY_CONCAT_INNER(a, b)

// Returns the status of `expr` from the enclosing function if it is not OK.
#ifndef RETURN_IF_ERROR
#define RETURN_IF_ERROR(expr)                                                           \
  do {                                                                                  \
    if (absl::Status belfry_status = (expr); !belfry_status.ok()) return belfry_status; \
  } while (false)
#endif

// ASSIGN_OR_RETURN(auto value, MakeStatusOr()): unwraps the value, or returns its status from the enclosing function.
#ifndef ASSIGN_OR_RETURN
#define ASSIGN_OR_RETURN(declaration, expr) \
  BELFRY_ASSIGN_OR_RETURN(BELFRY_CONCAT(belfry_status_or_, __LINE__), declaration, expr)
#define BELFRY_ASSIGN_OR_RETURN(status_or, declaration, expr) \
  auto status_or = (expr);                                    \
  if (!status_or.ok()) return std::move(status_or).status();  \
  declaration = std::move(status_or).value()
#endif
