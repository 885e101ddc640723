// A minimal webhook in Go, and the clients of the bench.
package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"
)

// answer returns a handler that decodes a review with its object, and always answers the same patch.
func answer(patch []byte) http.HandlerFunc {
	return func(out http.ResponseWriter, in *http.Request) {
		var review struct {
			Request struct {
				UID    string
				Object map[string]any
			}
		}
		check(json.NewDecoder(in.Body).Decode(&review))
		out.Header().Set("Content-Type", "application/json")
		check(json.NewEncoder(out).Encode(map[string]any{
			"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
			"response": map[string]any{
				"uid": review.Request.UID, "allowed": true, "patchType": "JSONPatch", "patch": patch,
			},
		}))
	}
}

// serve PORT CERTIFICATE KEY PATCH... answers reviews at the path of each file with the patch in the file.
func serve(words []string) {
	for _, file := range words[3:] {
		http.HandleFunc(file, answer(must(os.ReadFile(file))))
	}
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServeTLS("127.0.0.1:"+words[0], words[1], words[2], nil))
}

// create CA JOB URL CLIENTS EACH creates jobs, and prints the microseconds of every create. TOKEN is in the environment.
// A number replaces NAME in the job. Every client has its own connection, and its first create is not measured.
func create(words []string) {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(must(os.ReadFile(words[0])))
	job, clients, each := must(os.ReadFile(words[1])), must(strconv.Atoi(words[3])), must(strconv.Atoi(words[4]))
	var all, warm sync.WaitGroup
	warm.Add(clients)
	spent := make([]time.Duration, clients*each)
	for client := range clients {
		all.Go(func() {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}
			next := client * (each + 1)
			send(transport, words[2], job, next)
			warm.Done()
			warm.Wait()
			for i := range each {
				begun := time.Now()
				send(transport, words[2], job, next+i+1)
				spent[client*each+i] = time.Since(begun)
			}
		})
	}
	all.Wait()
	for _, duration := range spent {
		fmt.Println(duration.Microseconds())
	}
}

func send(transport *http.Transport, url string, job []byte, number int) {
	body := bytes.Replace(job, []byte("NAME"), fmt.Appendf(nil, "job-%07d", number), 1)
	request := must(http.NewRequest("POST", url, bytes.NewReader(body)))
	request.Header = http.Header{"Authorization": {"Bearer " + os.Getenv("TOKEN")}, "Content-Type": {"application/json"}}
	response := must(transport.RoundTrip(request))
	defer response.Body.Close()
	text := must(io.ReadAll(response.Body))
	if response.StatusCode != http.StatusCreated {
		log.Fatalf("%d %s", response.StatusCode, text)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	map[string]func([]string){"serve": serve, "create": create}[os.Args[1]](os.Args[2:])
}
