package main

import (
	"encoding/json"
	"fmt"
	"sync"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// claimWrites is what is written to claims while a group is decided and bound.
type claimWrites struct {
	Written     map[string]*writtenClaim `json:"written"`     // namespace/name -> what is written before pods are bound
	Deallocated []string                 `json:"deallocated"` // namespace/name, as often as it is written
	Released    []string                 `json:"released"`    // namespace/name, and the uid that it is not reserved for any more

	guard sync.Mutex // bindings run beside each other
}

type writtenClaim struct {
	Allocation  *resourceapi.AllocationResult `json:"allocation"`
	ReservedFor []string                      `json:"reservedFor"` // uids, in any order, some more than once
}

// watchClaims makes every write to a claim succeed, change nothing, and be noted.
func watchClaims(client *fake.Clientset) *claimWrites {
	found := &claimWrites{Written: map[string]*writtenClaim{}}
	client.PrependReactor("update", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		claim := action.(clienttesting.UpdateAction).GetObject().(*resourceapi.ResourceClaim)
		if action.GetSubresource() == "status" {
			found.note(claim.DeepCopy())
		}
		return true, claim, nil
	})
	client.PrependReactor("patch", "resourceclaims", func(action clienttesting.Action) (bool, runtime.Object, error) {
		patch := action.(clienttesting.PatchAction)
		if err := found.noteRelease(patch); err != nil {
			return true, nil, err
		}
		claim := &resourceapi.ResourceClaim{}
		claim.Name, claim.Namespace = patch.GetName(), patch.GetNamespace()
		return true, claim, nil
	})
	return found
}

func (w *claimWrites) note(claim *resourceapi.ResourceClaim) {
	w.guard.Lock()
	defer w.guard.Unlock()
	key := claim.Namespace + "/" + claim.Name
	if claim.Status.Allocation == nil {
		w.Deallocated = append(w.Deallocated, key)
		return
	}
	if w.Written[key] == nil {
		w.Written[key] = &writtenClaim{}
	}
	w.Written[key].Allocation = claim.Status.Allocation
	for _, consumer := range claim.Status.ReservedFor {
		w.Written[key].ReservedFor = append(w.Written[key].ReservedFor, string(consumer.UID))
	}
}

// noteRelease notes a patch that deletes one of those that a claim is reserved for, by its uid.
func (w *claimWrites) noteRelease(patch clienttesting.PatchAction) error {
	var written struct {
		Status struct {
			ReservedFor []struct {
				UID string `json:"uid"`
			} `json:"reservedFor"`
		} `json:"status"`
	}
	if err := json.Unmarshal(patch.GetPatch(), &written); err != nil {
		return err
	}
	w.guard.Lock()
	defer w.guard.Unlock()
	for _, consumer := range written.Status.ReservedFor {
		w.Released = append(w.Released, fmt.Sprintf("%s/%s %s", patch.GetNamespace(), patch.GetName(), consumer.UID))
	}
	return nil
}
