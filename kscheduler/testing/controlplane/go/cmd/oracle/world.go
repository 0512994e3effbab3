package main

import (
	"context"
	"fmt"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/validation"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"
)

// world is a scheduler over one cluster, and for each of its profiles a twin whose plugins can be asked one by one.
//
// Plugins that assume volumes keep a cache of their own, so everything but scores is asked of the scheduler's own.
type world struct {
	ctx       context.Context
	stop      context.CancelFunc
	logger    klog.Logger
	scheduler *scheduler.Scheduler
	snapshot  *internalcache.Snapshot
	witness   *witness
	factory   informers.SharedInformerFactory
	twins     map[string]*twin // scheduler name -> its profile's twin
}

// twin is a framework of the same profile over the same snapshot.
type twin struct {
	lists *config.Plugins
	made  map[string]fwk.Plugin // plugin name -> the plugin
}

func newWorld(text string, cluster *cluster) (*world, error) {
	loaded, err := loadConfig(text)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &world{ctx: ctx, stop: stop, logger: klog.FromContext(ctx), witness: newWitness(), twins: map[string]*twin{}}
	if err := w.build(loaded, cluster); err != nil {
		stop()
		return nil, err
	}
	return w, nil
}

func loadConfig(text string) (*config.KubeSchedulerConfiguration, error) {
	object, kind, err := scheme.Codecs.UniversalDecoder().Decode([]byte(text), nil, nil)
	if err != nil {
		return nil, err
	}
	loaded, ok := object.(*config.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("config: expected a KubeSchedulerConfiguration, got %s", kind)
	}
	loaded.TypeMeta.APIVersion = kind.GroupVersion().String()
	if faults := validation.ValidateKubeSchedulerConfiguration(loaded); faults != nil {
		return nil, fmt.Errorf("config: %w", faults)
	}
	return loaded, nil
}

func (w *world) build(loaded *config.KubeSchedulerConfiguration, cluster *cluster) error {
	// 1. The scheduler, with informers that are never started: their stores are filled here. The caches of assumed
	// volumes look into these stores, too.
	client := agreeable()
	factory := newInformerFactory(client)
	ofDevices := newStillDevices(factory)
	made, err := scheduler.New(w.ctx, client, factory, nil, noRecorder,
		scheduler.WithProfiles(watched(loaded.Profiles)...),
		scheduler.WithFrameworkOutOfTreeRegistry(w.witness.registry()),
		scheduler.WithParallelism(1),
		scheduler.WithPercentageOfNodesToScore(loaded.PercentageOfNodesToScore),
		scheduler.WithComponentConfigVersion(loaded.TypeMeta.APIVersion))
	if err != nil {
		return err
	}
	w.scheduler, w.factory = made, factory
	if err := firstError(fillStores(factory, cluster), ofDevices.deliver(&cluster.devices)); err != nil {
		return err
	}

	// 2. The cluster.
	for _, node := range cluster.Nodes {
		made.Cache.AddNode(w.logger, node)
	}
	for _, pod := range cluster.Pods {
		if err := made.Cache.AddPod(w.logger, pod); err != nil {
			return err
		}
	}
	for _, pod := range cluster.Nominated {
		made.SchedulingQueue.Add(w.ctx, pod)
	}
	w.snapshot = anyProfile(made.Profiles).SnapshotSharedLister().(*internalcache.Snapshot)
	if err := made.Cache.UpdateSnapshot(w.logger, w.snapshot); err != nil {
		return err
	}

	// 3. The twins.
	for i := range loaded.Profiles {
		if err := w.addTwin(&loaded.Profiles[i], factory); err != nil {
			return err
		}
	}
	return nil
}

func (w *world) addTwin(wanted *config.KubeSchedulerProfile, factory informers.SharedInformerFactory) error {
	original := w.scheduler.Profiles[wanted.SchedulerName]
	made := map[string]fwk.Plugin{}
	options := append(snapshotOptions(w.snapshot),
		frameworkruntime.WithComponentConfigVersion("kubescheduler.config.k8s.io/v1"),
		frameworkruntime.WithClientSet(original.ClientSet()),
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedDRAManager(original.SharedDRAManager()),
		frameworkruntime.WithSharedCSIManager(original.SharedCSIManager()),
		frameworkruntime.WithPodGroupManager(original.PodGroupManager()),
		frameworkruntime.WithPodNominator(w.scheduler.SchedulingQueue),
		frameworkruntime.WithParallelism(1))
	built, err := frameworkruntime.NewFramework(w.ctx, recording(made, original), wanted, options...)
	if err != nil {
		return err
	}
	w.twins[wanted.SchedulerName] = &twin{lists: built.ListPlugins(), made: made}
	return nil
}

// recording is the in-tree registry, of which every plugin that is made is also put into a map. Plugins that can be made
// only once over the same informers are those of the original.
func recording(made map[string]fwk.Plugin, original framework.Framework) frameworkruntime.Registry {
	registry := frameworkruntime.Registry{}
	for name, factory := range plugins.NewInTreeRegistry() {
		registry[name] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
			plugin, err := factory(ctx, args, handle)
			if err == nil {
				made[name] = plugin
			}
			return plugin, err
		}
	}
	for _, plugin := range original.EnqueueExtensions() {
		if plugin.Name() == dynamicresources.Name {
			registry[dynamicresources.Name] = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error) {
				made[dynamicresources.Name] = plugin
				return plugin, nil
			}
		}
	}
	return registry
}

// noRecorder records nothing.
func noRecorder(string) events.EventRecorderLogger { return &events.FakeRecorder{} }

func anyProfile(profiles profile.Map) framework.Framework {
	for _, found := range profiles {
		return found
	}
	return nil // scheduler.New refuses a configuration without profiles
}

func fillStores(factory informers.SharedInformerFactory, cluster *cluster) error {
	core, apps, storage := factory.Core().V1(), factory.Apps().V1(), factory.Storage().V1()
	return firstError(
		fill(core.Nodes().Informer(), cluster.Nodes),
		fill(core.Pods().Informer(), cluster.Nominated), // the nominations asks whether they are still there
		fill(core.Namespaces().Informer(), cluster.Namespaces),
		fill(core.Services().Informer(), cluster.Services),
		fill(core.ReplicationControllers().Informer(), cluster.ReplicationControllers),
		fill(apps.ReplicaSets().Informer(), cluster.ReplicaSets),
		fill(apps.StatefulSets().Informer(), cluster.StatefulSets),
		fill(core.PersistentVolumes().Informer(), cluster.PersistentVolumes),
		fill(core.PersistentVolumeClaims().Informer(), cluster.PersistentVolumeClaims),
		fill(storage.StorageClasses().Informer(), cluster.StorageClasses),
		fill(storage.CSINodes().Informer(), cluster.CSINodes),
		fill(storage.CSIDrivers().Informer(), cluster.CSIDrivers),
		fill(storage.CSIStorageCapacities().Informer(), cluster.CSIStorageCapacities),
		fill(storage.VolumeAttachments().Informer(), cluster.VolumeAttachments),
		fill(factory.Policy().V1().PodDisruptionBudgets().Informer(), cluster.PodDisruptionBudgets),
	)
}

func fill[T any](informer cache.SharedIndexInformer, objects []T) error {
	for _, object := range objects {
		if err := informer.GetIndexer().Add(object); err != nil {
			return err
		}
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// assume puts the pod on its node, for those that are decided after it, and reserves what it was found to need there.
func (w *world) assume(state fwk.CycleState, pod *v1.Pod, host string) error {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = host
	if err := w.scheduler.Cache.AssumePod(w.logger, placed); err != nil {
		return err
	}
	profile := w.scheduler.Profiles[pod.Spec.SchedulerName]
	if reserved := profile.RunReservePluginsReserve(w.ctx, state, placed, host); !reserved.IsSuccess() {
		return fmt.Errorf("Reserve: %w", reserved.AsError())
	}
	return w.scheduler.Cache.UpdateSnapshot(w.logger, w.snapshot)
}

func (w *world) nodeOrder() []string {
	nodes, err := w.snapshot.List()
	if err != nil {
		panic(err) // the snapshot's own list never fails
	}
	return names(nodes)
}

// queueOrder sorts by the QueueSort plugin; pods count as queued when they were created.
func (w *world) queueOrder(pods []*v1.Pod) []int {
	less := anyProfile(w.scheduler.Profiles).QueueSortFunc()
	queued := make([]*framework.QueuedPodInfo, len(pods))
	order := make([]int, len(pods))
	for i, pod := range pods {
		queued[i] = &framework.QueuedPodInfo{PodInfo: &framework.PodInfo{Pod: pod}}
		queued[i].Timestamp = pod.CreationTimestamp.Time
		order[i] = i
	}
	sort.SliceStable(order, func(i, j int) bool { return less(queued[order[i]], queued[order[j]]) })
	return order
}

func names(nodes []fwk.NodeInfo) []string {
	found := make([]string, 0, len(nodes))
	for _, node := range nodes {
		found = append(found, node.Node().Name)
	}
	return found
}

func (w *world) plugins() map[string][]weighed {
	found := map[string][]weighed{}
	for name, twin := range w.twins {
		points := map[string]config.PluginSet{
			"preEnqueue": twin.lists.PreEnqueue, "queueSort": twin.lists.QueueSort, "preFilter": twin.lists.PreFilter,
			"filter": twin.lists.Filter, "postFilter": twin.lists.PostFilter, "preScore": twin.lists.PreScore,
			"score": twin.lists.Score, "reserve": twin.lists.Reserve, "permit": twin.lists.Permit,
			"preBind": twin.lists.PreBind, "bind": twin.lists.Bind, "postBind": twin.lists.PostBind,
		}
		for point, set := range points {
			for _, plugin := range set.Enabled {
				key := name + "/" + point
				found[key] = append(found[key], weighed{plugin.Name, plugin.Weight})
			}
		}
	}
	return found
}
