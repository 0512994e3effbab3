"""A guest that traps unless each attempt of each pod has an instance of its own, begun by `prefilter`.

It keeps the pod of `prefilter`, and how far the attempt has come; every other export looks whether both are still so.
"""

from __future__ import annotations

from tests.wasm.extension.kit import wasm

KEEPER = wasm("""
(module
  (import "k8s.io/scheduler" "currentPod" (func $pod (param i32 i32) (result i32)))
  (memory (export "memory") 2)
  (global $size (mut i32) (i32.const 0))   ;; of the pod that was kept, at 1024
  (global $stage (mut i32) (i32.const 0))  ;; 1 begun, 2 reserved, 3 permitted, 4 about to be bound, 5 bound

  (func $must_be_at (param $stage i32)
    (local $n i32) (local $i i32)
    (if (i32.ne (global.get $stage) (local.get $stage)) (then unreachable))
    (local.set $n (call $pod (i32.const 65536) (i32.const 32768)))
    (if (i32.ne (local.get $n) (global.get $size)) (then unreachable))
    (loop $next (if (i32.lt_u (local.get $i) (local.get $n)) (then
      (if (i32.ne (i32.load8_u offset=65536 (local.get $i)) (i32.load8_u offset=1024 (local.get $i)))
        (then unreachable))
      (local.set $i (i32.add (local.get $i) (i32.const 1)))
      (br $next)))))

  (func (export "prefilter") (result i32)
    (global.set $size (call $pod (i32.const 1024) (i32.const 32768)))
    (global.set $stage (i32.const 1))
    (i32.const 0))
  (func (export "filter") (result i32) (call $must_be_at (i32.const 1)) (i32.const 0))
  (func (export "postfilter") (result i64) (call $must_be_at (i32.const 1)) (i64.const 2))
  (func (export "prescore") (result i32) (call $must_be_at (i32.const 1)) (i32.const 0))
  (func (export "score") (result i64) (call $must_be_at (i32.const 1)) (i64.const 0))
  (func (export "normalizescore") (result i32) (call $must_be_at (i32.const 1)) (i32.const 0))
  (func (export "reserve") (result i32)
    (call $must_be_at (i32.const 1)) (global.set $stage (i32.const 2)) (i32.const 0))
  (func (export "permit") (result i64)
    (call $must_be_at (i32.const 2)) (global.set $stage (i32.const 3)) (i64.const 0))
  (func (export "prebind") (result i32)
    (call $must_be_at (i32.const 3)) (global.set $stage (i32.const 4)) (i32.const 0))
  (func (export "bind") (result i32)
    (call $must_be_at (i32.const 4)) (global.set $stage (i32.const 5)) (i32.const 0))
  (func (export "postbind")  ;; another plugin may have bound the pod
    (if (i32.eq (global.get $stage) (i32.const 4)) (then (global.set $stage (i32.const 5))))
    (call $must_be_at (i32.const 5)) (global.set $stage (i32.const 9)))
  (func (export "unreserve")
    (if (i32.lt_u (global.get $stage) (i32.const 2)) (then (call $must_be_at (i32.const 1))))
    (global.set $stage (i32.const 9))))
""")

# Counts the pods that come and go, and rejects the node unless as many came as have gone. `prefilter` resets the count.
FOLLOWER = wasm("""
(module
  (memory (export "memory") 1)
  (global $pods (mut i32) (i32.const 0))
  (func (export "prefilter") (result i32) (global.set $pods (i32.const 0)) (i32.const 0))
  (func (export "addpod") (result i32) (global.set $pods (i32.add (global.get $pods) (i32.const 1))) (i32.const 0))
  (func (export "removepod") (result i32) (global.set $pods (i32.sub (global.get $pods) (i32.const 1))) (i32.const 0))
  (func (export "filter") (result i32) (if (result i32) (global.get $pods) (then (i32.const 2)) (else (i32.const 0)))))
""")
