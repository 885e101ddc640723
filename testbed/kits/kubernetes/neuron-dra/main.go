// A DRA driver for tests. Like the Neuron DRA driver on a node of an UltraServer, it publishes its node as one device of
// neuron.aws.com. By a CDI spec, containers get the node config of their claim as an environment variable.
//
// usage: neuron-dra NODE KUBECONFIG
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	resource "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
)

const (
	driver = "neuron.aws.com"
	kind   = driver + "/claim"
	// The folder from which containerd reads CDI specs by default.
	specs = "/var/run/cdi"
)

// modes are the values of NEURON_RT_ULTRASERVER_MODE, by node config.
var modes = map[int]int{4: 1, 2: 3, 1: 4}

type object = map[string]any

type plugin struct{}

// nodeConfig returns the node config in the claim's configuration for this driver; 1 without such a configuration.
func nodeConfig(claim *resource.ResourceClaim) (int, error) {
	parameters := struct {
		Kind            string
		UltraserverMode int
	}{}
	for _, config := range claim.Status.Allocation.Devices.Config {
		if config.Opaque == nil || config.Opaque.Driver != driver {
			continue
		}
		if err := json.Unmarshal(config.Opaque.Parameters.Raw, &parameters); err != nil {
			return 0, err
		}
		if parameters.Kind == "UltraServerConfig" {
			return parameters.UltraserverMode, nil
		}
	}
	return 1, nil
}

func specPath(claim types.UID) string {
	return filepath.Join(specs, fmt.Sprintf("%s-%s.json", driver, claim))
}

func prepare(claim *resource.ResourceClaim) (result kubeletplugin.PrepareResult) {
	config, err := nodeConfig(claim)
	if err != nil {
		return kubeletplugin.PrepareResult{Err: err}
	}
	if modes[config] == 0 {
		return kubeletplugin.PrepareResult{Err: fmt.Errorf("ultraserverMode %d is none of 4, 2 and 1", config)}
	}
	id := string(claim.UID)
	edits := object{"env": []string{"NEURON_RT_ULTRASERVER_MODE=" + strconv.Itoa(modes[config])}}
	text, err := json.Marshal(object{
		"cdiVersion": "0.6.0", "kind": kind, "devices": []object{{"name": id, "containerEdits": edits}},
	})
	if err == nil {
		// The file is renamed, because containerd must not read an incomplete file.
		if err = os.WriteFile(specPath(claim.UID)+".new", text, 0o600); err == nil {
			err = os.Rename(specPath(claim.UID)+".new", specPath(claim.UID))
		}
	}
	if err != nil {
		return kubeletplugin.PrepareResult{Err: err}
	}
	for _, device := range claim.Status.Allocation.Devices.Results {
		if device.Driver == driver {
			result.Devices = append(result.Devices, kubeletplugin.Device{
				Requests: []string{device.Request}, PoolName: device.Pool, DeviceName: device.Device,
				CDIDeviceIDs: []string{kind + "=" + id},
			})
		}
	}
	log.Printf("prepared %s/%s for node config %d", claim.Namespace, claim.Name, config)
	return result
}

func (plugin) PrepareResourceClaims(_ context.Context, claims []*resource.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		results[claim.UID] = prepare(claim)
	}
	return results, nil
}

func (plugin) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	results := map[types.UID]error{}
	for _, claim := range claims {
		err := os.Remove(specPath(claim.UID))
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // an earlier call has removed it
		}
		results[claim.UID] = err
		log.Printf("unprepared %s/%s", claim.Namespace, claim.Name)
	}
	return results, nil
}

func (plugin) HandleError(_ context.Context, err error, message string) {
	log.Printf("%s: %v", message, err)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		os.Exit(1)
	}
}

// driverResources returns the node as one device.
func driverResources(node string) resourceslice.DriverResources {
	attributes := map[resource.QualifiedName]resource.DeviceAttribute{}
	for name, value := range map[resource.QualifiedName]string{
		"resourceType": "neuron_node", "instanceType": "trn2u.48xlarge", "neuronDriverVersion": "2.26.10.0",
	} {
		attributes[name] = resource.DeviceAttribute{StringValue: &value}
	}
	devices := []resource.Device{{Name: "neuron-node", Attributes: attributes}}
	return resourceslice.DriverResources{
		Pools: map[string]resourceslice.Pool{node: {Slices: []resourceslice.Slice{{Devices: devices}}}},
	}
}

func run(ctx context.Context, node, kubeconfig string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	for _, folder := range []string{specs, filepath.Join(kubeletplugin.KubeletPluginsDir, driver)} {
		if err := os.MkdirAll(folder, 0o750); err != nil {
			return err
		}
	}
	helper, err := kubeletplugin.Start(ctx, plugin{}, kubeletplugin.DriverName(driver),
		kubeletplugin.NodeName(node), kubeletplugin.KubeClient(client))
	if err != nil {
		return err
	}
	defer helper.Stop()
	if err := helper.PublishResources(ctx, driverResources(node)); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}
