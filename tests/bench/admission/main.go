// The least that a webhook in Go does, and the clients of the bench.
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

// answer reads a review and its object, and gives the same patch for every job.
func answer(patch []byte) http.HandlerFunc {
	return func(out http.ResponseWriter, in *http.Request) {
		var asked struct {
			Request struct {
				UID    string
				Object map[string]any
			}
		}
		check(json.NewDecoder(in.Body).Decode(&asked))
		out.Header().Set("Content-Type", "application/json")
		check(json.NewEncoder(out).Encode(map[string]any{
			"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
			"response": map[string]any{
				"uid": asked.Request.UID, "allowed": true, "patchType": "JSONPatch", "patch": patch,
			},
		}))
	}
}

// serve PORT CERTIFICATE KEY PATCH...: the patch of a file is answered at the file's path.
func serve(words []string) {
	for _, file := range words[3:] {
		http.HandleFunc(file, answer(must(os.ReadFile(file))))
	}
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServeTLS("127.0.0.1:"+words[0], words[1], words[2], nil))
}

// create CA JOB URL CLIENTS EACH, with a TOKEN: microseconds of every create, a line each. What is called NAME in the
// job is numbered. Every client has a connection of its own, and its first create is not counted.
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
	for _, one := range spent {
		fmt.Println(one.Microseconds())
	}
}

func send(transport *http.Transport, url string, job []byte, number int) {
	body := bytes.Replace(job, []byte("NAME"), fmt.Appendf(nil, "job-%07d", number), 1)
	asked := must(http.NewRequest("POST", url, bytes.NewReader(body)))
	asked.Header = http.Header{"Authorization": {"Bearer " + os.Getenv("TOKEN")}, "Content-Type": {"application/json"}}
	said := must(transport.RoundTrip(asked))
	defer said.Body.Close()
	text := must(io.ReadAll(said.Body))
	if said.StatusCode != http.StatusCreated {
		log.Fatalf("%d %s", said.StatusCode, text)
	}
}

func must[T any](found T, err error) T {
	check(err)
	return found
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func main() {
	map[string]func([]string){"serve": serve, "create": create}[os.Args[1]](os.Args[2:])
}
