// Colly on the synthetic web: colly SEEDS memory|bolt|sqlite FILE.
//
// An asynchronous collector with robots.txt obeyed, and with Colly's storage.Storage in memory, in bbolt or in SQLite.
// A page's links are looked up in a set of this program first, because Colly's own look-up and its mark are two steps,
// between which another page may find the same URL, and because each look-up in a file is a transaction.
package main

import (
	"bufio"
	"database/sql"
	"encoding/binary"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gocolly/colly/v2"
	"github.com/gocolly/colly/v2/storage"
	_ "github.com/mattn/go-sqlite3"
	bolt "go.etcd.io/bbolt"
)

// noCookies is the half of a storage.Storage that is off.
type noCookies struct{}

func (noCookies) Cookies(*url.URL) string     { return "" }
func (noCookies) SetCookies(*url.URL, string) {}

type boltStore struct {
	noCookies
	db *bolt.DB
}

var bucket = []byte("visited")

func key(id uint64) []byte { return binary.BigEndian.AppendUint64(nil, id) }

func (s boltStore) Init() error {
	return s.db.Update(func(t *bolt.Tx) error {
		_, err := t.CreateBucketIfNotExists(bucket)
		return err
	})
}

func (s boltStore) Visited(id uint64) error {
	return s.db.Update(func(t *bolt.Tx) error { return t.Bucket(bucket).Put(key(id), []byte{1}) })
}

func (s boltStore) IsVisited(id uint64) (found bool, err error) {
	err = s.db.View(func(t *bolt.Tx) error {
		found = t.Bucket(bucket).Get(key(id)) != nil
		return nil
	})
	return
}

type sqliteStore struct {
	noCookies
	db           *sql.DB
	mark, lookUp *sql.Stmt
}

func (s *sqliteStore) Init() (err error) {
	s.db.SetMaxOpenConns(1)
	if _, err = s.db.Exec("CREATE TABLE IF NOT EXISTS visited(id INTEGER PRIMARY KEY)"); err != nil {
		return
	}
	if s.mark, err = s.db.Prepare("INSERT OR IGNORE INTO visited VALUES (?)"); err != nil {
		return
	}
	s.lookUp, err = s.db.Prepare("SELECT EXISTS(SELECT 1 FROM visited WHERE id = ?)")
	return
}

func (s *sqliteStore) Visited(id uint64) error {
	_, err := s.mark.Exec(int64(id))
	return err
}

func (s *sqliteStore) IsVisited(id uint64) (found bool, err error) {
	err = s.lookUp.QueryRow(int64(id)).Scan(&found)
	return
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func open(kind, file string) storage.Storage {
	switch kind {
	case "bolt":
		// Like SQLite below, it waits for no disk: a page whose links wait for one each stays in memory for long.
		db, err := bolt.Open(file, 0o600, &bolt.Options{NoFreelistSync: true, NoSync: true})
		must(err)
		return boltStore{db: db}
	case "sqlite":
		db, err := sql.Open("sqlite3", "file:"+file+"?_journal_mode=WAL&_synchronous=NORMAL")
		must(err)
		return &sqliteStore{db: db}
	}
	return &storage.InMemoryStorage{}
}

func main() {
	seeds, err := os.Open(os.Args[1])
	must(err)
	c := colly.NewCollector(colly.Async(true), colly.UserAgent("bench"))
	c.IgnoreRobotsTxt = false
	c.DisableCookies()
	c.WithTransport(&http.Transport{MaxIdleConnsPerHost: 2, IdleConnTimeout: 90 * time.Second})
	c.SetRequestTimeout(60 * time.Second)
	must(c.SetStorage(open(os.Args[2], os.Args[3])))
	// One semaphore for all hosts that match: Colly has no limit for each host, short of one rule a host.
	must(c.Limit(&colly.LimitRule{DomainGlob: "*", Parallelism: 64}))
	var seen sync.Map
	var pages atomic.Int64
	visit := func(url string) {
		url, _, _ = strings.Cut(url, "#")
		if _, known := seen.LoadOrStore(url, true); !known && strings.HasPrefix(url, "http") {
			_ = c.Visit(url) // an error says that robots.txt disallows it
		}
	}
	c.OnHTML("html", func(*colly.HTMLElement) { pages.Add(1) })
	c.OnHTML("a[href]", func(e *colly.HTMLElement) {
		visit(e.Request.AbsoluteURL(e.Attr("href")))
	})
	for lines := bufio.NewScanner(seeds); lines.Scan(); {
		visit(lines.Text())
	}
	c.Wait()
	fmt.Println("pages", pages.Load())
}
