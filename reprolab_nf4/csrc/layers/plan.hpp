// A plan of libreprolab_nf4.so as a Python object that frees it.
#pragma once

#include <cstdint>

#include "reprolab_nf4/csrc/layers/object.hpp"

namespace reprolab::layers {

/// reprolab_nf4_run and reprolab_nf4_forget, whose addresses Python passes.
using Run = int (*)(const void* plan, const void* input, void* output, int weights_ready,
                    void* workspace, void* stream);
using Forget = int (*)(void* plan);

struct Plan {
  PyObject_HEAD void* handle;
  Run run;
  Forget forget;
  std::int64_t n, k;
  std::uint64_t workspace_bytes;
  int weights_ready;
  /// The arguments that allocate the output: sizes, strides and type, as in the latest call.
  PyObject* output;
  PyObject* type;
  PyObject* allocate;  ///< (sizes, strides, type) -> tensor on the plan's device
  bool is_on_current;  ///< Whether that is the device on which PyTorch allocates by default.
};

inline PyObject* new_plan(PyTypeObject* type, PyObject* arguments, PyObject*) {
  unsigned long long handle, run, forget, workspace_bytes;
  long long n, k;
  int weights_ready;
  PyObject *output_type, *allocate;
  if (!PyArg_ParseTuple(arguments, "KKKKLLpOO", &handle, &run, &forget, &workspace_bytes, &n, &k,
                        &weights_ready, &output_type, &allocate)) {
    return nullptr;
  }
  PyObject* const object = PyType_GenericAlloc(type, 0);
  if (object == nullptr) return nullptr;
  auto& plan = *reinterpret_cast<Plan*>(object);
  plan.handle = reinterpret_cast<void*>(handle);
  plan.run = reinterpret_cast<Run>(run);
  plan.forget = reinterpret_cast<Forget>(forget);
  plan.n = n;
  plan.k = k;
  plan.workspace_bytes = workspace_bytes;
  plan.weights_ready = weights_ready;
  plan.type = Py_NewRef(output_type);
  plan.allocate = Py_NewRef(allocate);
  plan.is_on_current = true;
  return object;
}

inline void free_plan(PyObject* object) {
  auto& plan = *reinterpret_cast<Plan*>(object);
  PyTypeObject* const type = Py_TYPE(object);
  if (plan.handle != nullptr) plan.forget(plan.handle);
  Py_XDECREF(plan.output);
  Py_XDECREF(plan.type);
  Py_XDECREF(plan.allocate);
  PyObject_Free(object);
  Py_DECREF(type);
}

inline PyTypeObject* plan_type() {
  static PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(new_plan)},
                                {Py_tp_dealloc, reinterpret_cast<void*>(free_plan)},
                                {0, nullptr}};
  static PyType_Spec spec = {"reprolab_nf4._layers.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT,
                             slots};
  static PyObject* const type = PyType_FromSpec(&spec);
  return reinterpret_cast<PyTypeObject*>(type);
}

}  // namespace reprolab::layers
