// Linear4bit.__call__ in C: torch.nn.Module.__call__ for a layer without hooks.
#pragma once

#include <vector>

#include "reprolab_nf4/csrc/layers/calls.hpp"
#include "reprolab_nf4/csrc/layers/object.hpp"

namespace reprolab::layers {

/// A class attribute. Code that reads the attribute, such as torch.compile, gets the function
/// `in_python`, which also handles all calls that run more than the layer's forward.
struct LayerCall {
  Ref calls_object;  ///< Keeps `calls`.
  Calls* calls;
  Ref in_python;
  Ref forward;                    ///< Linear4bit.forward, set by install()
  Ref module;                     ///< torch.nn.Module
  Ref module_call, call_impl;     ///< The original __call__ and _call_impl of Module
  Ref tracing_state;              ///< A function that returns None while torch.jit traces nothing
  std::vector<Ref> global_hooks;  ///< Dictionaries of torch.nn.modules.module

  bool runs_forward_alone(PyTypeObject* type) const;
};

/// In Python: LayerCall(Calls, in_python, forward, module, module_call, call_impl, tracing_state,
/// global_hooks).
PyTypeObject* layer_call_type();

// module.cpp
PyTypeObject* calls_type();
Calls& calls_of(PyObject* object);

}  // namespace reprolab::layers
