// A device plugin for tests: registers aws.amazon.com/neuron with the kubelet of its node, as a real one does, and
// mounts a made-up /sys/class into each container that gets devices.
//
// usage: neuron FOLDER
//
// FOLDER/devices holds how many devices there are, and FOLDER/class is what containers get as /sys/class. Both are
// written by the tests, at any time: a change of the number reaches the kubelet within a moment, a change of a
// file is seen by the containers at once.
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

// count is how many devices there are at this moment.
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
		log.Printf("told the kubelet of %d devices", count)
		last = count
	}
}

func (p plugin) Allocate(_ context.Context, asked *api.AllocateRequest) (*api.AllocateResponse, error) {
	answer := &api.AllocateResponse{}
	// The whole class: inside /sys, which is the kernel's, no program can make a folder to mount on.
	class := &api.Mount{ContainerPath: "/sys/class", HostPath: filepath.Join(p.folder, "class"), ReadOnly: true}
	for _, container := range asked.ContainerRequests {
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

// serve registers once and stays until the kubelet starts again and removes the socket.
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
		// The kubelet may not be up yet, or be starting again.
		log.Print(p.serve())
	}
}
