// A device plugin for tests. Like the Neuron device plugin, it registers aws.amazon.com/neuron with the kubelet of its node.
// It mounts a folder of the test as /sys/class into each container that gets devices.
//
// usage: neuron FOLDER
//
// FOLDER/devices contains the number of devices, and FOLDER/class is mounted as /sys/class. Tests may change both at any
// time. The kubelet gets a changed number within 200 ms, and containers see a changed file immediately.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	api "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

const (
	resource = "aws.amazon.com/neuron"
	endpoint = "neuron.sock"
	moment   = 200 * time.Millisecond
)

type plugin struct {
	api.UnimplementedDevicePluginServer
	folder string
}

func (p plugin) GetDevicePluginOptions(context.Context, *api.Empty) (*api.DevicePluginOptions, error) {
	return &api.DevicePluginOptions{}, nil
}

// count returns the present number of devices.
func (p plugin) count() (int, error) {
	text, err := os.ReadFile(filepath.Join(p.folder, "devices"))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (p plugin) ListAndWatch(_ *api.Empty, stream grpc.ServerStreamingServer[api.ListAndWatchResponse]) error {
	for last := -1; ; time.Sleep(moment) {
		if err := stream.Context().Err(); err != nil {
			return err
		}
		count, err := p.count()
		if err != nil {
			return err
		}
		if count == last {
			continue
		}
		devices := make([]*api.Device, count)
		for number := range devices {
			devices[number] = &api.Device{ID: fmt.Sprintf("neuron%d", number), Health: api.Healthy}
		}
		if err := stream.Send(&api.ListAndWatchResponse{Devices: devices}); err != nil {
			return err
		}
		log.Printf("sent %d devices to the kubelet", count)
		last = count
	}
}

func (p plugin) Allocate(_ context.Context, request *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	// The complete /sys/class is replaced, because no program can create a mount point in the kernel's /sys.
	class := &api.Mount{ContainerPath: "/sys/class", HostPath: filepath.Join(p.folder, "class"), ReadOnly: true}
	for _, container := range request.ContainerRequests {
		log.Printf("allocated %v", container.DevicesIds)
		answer.ContainerResponses = append(answer.ContainerResponses,
			&api.ContainerAllocateResponse{Mounts: []*api.Mount{class}})
	}
	return answer, nil
}

func register() error {
	connection, err := grpc.NewClient("unix://"+api.KubeletSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer connection.Close()
	deadline, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request := &api.RegisterRequest{Version: api.Version, Endpoint: endpoint, ResourceName: resource}
	_, err = api.NewRegistrationClient(connection).Register(deadline, request)
	return err
}

// serve registers the plugin, and returns when the kubelet removes the socket because it starts again.
func (p plugin) serve() error {
	socket := filepath.Join(api.DevicePluginPath, endpoint)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	defer server.Stop()
	api.RegisterDevicePluginServer(server, p)
	go func() {
		if err := server.Serve(listener); err != nil {
			log.Print(err)
		}
	}()
	if err := register(); err != nil {
		return err
	}
	log.Print("registered ", resource)
	for {
		if _, err := os.Stat(socket); err != nil {
			return err
		}
		time.Sleep(moment)
	}
}

func main() {
	for p := (plugin{folder: os.Args[1]}); ; time.Sleep(moment) {
		// The kubelet may not run yet, or may start again.
		log.Print(p.serve())
	}
}
