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
				Object struct {
					Kind     string
					Metadata map[string]any
					Spec     map[string]any
				}
			}
		}
		check(json.NewDecoder(in.Body).Decode(&asked))
		said := map[string]any{
			"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
			"response": map[string]any{
				"uid": asked.Request.UID, "allowed": true, "patchType": "JSONPatch", "patch": patch,
			},
		}
		out.Header().Set("Content-Type", "application/json")
		check(json.NewEncoder(out).Encode(said))
	}
}

// serve PORT CERTIFICATE KEY PATCH...: the patch of a file is answered at the file's path.
func serve(words []string) {
	for _, file := range words[3:] {
		http.HandleFunc(file, answer(read(file)))
	}
	http.HandleFunc("/readyz", func(http.ResponseWriter, *http.Request) {})
	log.Fatal(http.ListenAndServeTLS("127.0.0.1:"+words[0], words[1], words[2], nil))
}

// create CA JOB URL CLIENTS EACH NUMBER, with a TOKEN: microseconds of every create, a line each. What is called NAME
// in the job is numbered from NUMBER on. Every client has its own connection, and its first create is not counted.
func create(words []string) {
	authorities := x509.NewCertPool()
	authorities.AppendCertsFromPEM(read(words[0]))
	job, clients, each, first := read(words[1]), number(words[3]), number(words[4]), number(words[5])
	var all, warm sync.WaitGroup
	warm.Add(clients)
	spent := make([]time.Duration, clients*each)
	for client := range clients {
		all.Go(func() {
			transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}
			next := first + client*(each+1)
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
	asked, err := http.NewRequest("POST", url, bytes.NewReader(body))
	check(err)
	asked.Header.Set("Authorization", "Bearer "+os.Getenv("TOKEN"))
	asked.Header.Set("Content-Type", "application/json")
	said, err := transport.RoundTrip(asked)
	check(err)
	text, err := io.ReadAll(said.Body)
	check(err)
	said.Body.Close()
	if said.StatusCode != http.StatusCreated {
		log.Fatalf("%d %s", said.StatusCode, text)
	}
}

func read(file string) []byte {
	text, err := os.ReadFile(file)
	check(err)
	return text
}

func number(word string) int {
	found, err := strconv.Atoi(word)
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
