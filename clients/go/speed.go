// The speed of single operations by MongoDB's driver for Go, against a server and against `echo` of clients/rust in
// turns, so that what else the machine does falls on both.
//
// `speed SERVER ECHO [ROUNDS]`, both as connection strings, prints operations a second and their ratio, the median of
// all rounds.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// How long each operation is measured in a round, against each server.
const duration = 700 * time.Millisecond

// Documents in the collection.
const documents = 10_000

var text = strings.Repeat("x", 100)

// The operations in the order of the table.
var operations = []struct {
	name string
	run  func(context.Context, *mongo.Collection, int32, int32) error
}{
	{"find by _id", func(ctx context.Context, c *mongo.Collection, at, _ int32) error {
		_, err := c.FindOne(ctx, bson.D{{Key: "_id", Value: at}}).Raw()
		return err
	}},
	{"covered range of 10", func(ctx context.Context, c *mongo.Collection, at, _ int32) error {
		shown := bson.D{{Key: "_id", Value: 0}, {Key: "a", Value: 1}}
		how := options.Find().SetProjection(shown).SetSort(bson.D{{Key: "a", Value: 1}}).SetLimit(10)
		cursor, err := c.Find(ctx, bson.D{{Key: "a", Value: bson.D{{Key: "$gte", Value: at}}}}, how)
		if err != nil {
			return err
		}
		for cursor.Next(ctx) {
		}
		return cursor.Err()
	}},
	{"insert", func(ctx context.Context, c *mongo.Collection, _, round int32) error {
		// The driver makes the _id; a is behind what the ranges read.
		_, err := c.InsertOne(ctx, bson.D{{Key: "a", Value: 2*documents + round}, {Key: "b", Value: text}})
		return err
	}},
	{"update", func(ctx context.Context, c *mongo.Collection, at, _ int32) error {
		add := bson.D{{Key: "$inc", Value: bson.D{{Key: "n", Value: int32(1)}}}}
		_, err := c.UpdateOne(ctx, bson.D{{Key: "_id", Value: at}}, add)
		return err
	}},
}

func main() {
	if len(os.Args) < 3 {
		log.Fatal("speed SERVER ECHO [ROUNDS]")
	}
	rounds := 9
	if len(os.Args) > 3 {
		rounds, _ = strconv.Atoi(os.Args[3])
	}
	ctx := context.Background()
	server, echo := collection(os.Args[1]), collection(os.Args[2])
	check(fill(ctx, server))
	fmt.Printf("%-20s %11s %10s %10s %6s\n", "operation", "connections", "server/s", "echo/s", "ratio")
	for _, connections := range []int{1, 8} {
		for at, operation := range operations {
			var first, second, ratios []float64
			for round := range rounds {
				a := rate(ctx, server, at, connections, int32(round))
				b := rate(ctx, echo, at, connections, int32(round))
				first, second, ratios = append(first, a), append(second, b), append(ratios, a/b)
			}
			fmt.Printf("%-20s %11d %10.0f %10.0f %6.2f\n",
				operation.name, connections, median(first), median(second), median(ratios))
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

func collection(uri string) *mongo.Collection {
	// What a write waits for is measured elsewhere.
	journal := false
	how := options.Client().ApplyURI(uri).SetMaxPoolSize(16)
	how.SetWriteConcern(&writeconcern.WriteConcern{W: 1, Journal: &journal})
	client, err := mongo.Connect(how)
	check(err)
	return client.Database("speed").Collection("documents")
}

func fill(ctx context.Context, c *mongo.Collection) error {
	if err := c.Drop(ctx); err != nil {
		return err
	}
	if _, err := c.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "a", Value: 1}}}); err != nil {
		return err
	}
	var all []bson.D
	for at := range int32(documents) {
		all = append(all, bson.D{{Key: "_id", Value: at}, {Key: "a", Value: at}, {Key: "b", Value: text}})
	}
	_, err := c.InsertMany(ctx, all)
	return err
}

// Operations a second.
func rate(ctx context.Context, c *mongo.Collection, operation, connections int, round int32) float64 {
	begun := time.Now()
	counts := make([]int, connections)
	var clients sync.WaitGroup
	for client := range connections {
		clients.Add(1)
		go func() {
			defer clients.Done()
			for time.Since(begun) < duration {
				at := (int32(counts[client])*7919 + int32(client)*1237) % documents
				check(operations[operation].run(ctx, c, max(at, -at), round))
				counts[client]++
			}
		}()
	}
	clients.Wait()
	sum := 0
	for _, count := range counts {
		sum += count
	}
	return float64(sum) / time.Since(begun).Seconds()
}
