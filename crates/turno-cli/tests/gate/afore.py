"""A legacy service, as the afore contract describes it: it validates certification requests, and knows nothing of duplicates.

It prints its port, and `begin CURP ATTEMPT` for each request that it processes. Its standard input steers it: `go` lets
one request end that said "esperar", `habil 0` makes today a holiday, and `habil 1` a working day.
"""

import http.server
import json
import sys
import threading

lock = threading.Lock()
go = threading.Semaphore(0)
state = {"habil": True, "procesadas": 0}


def say(text):
    with lock:
        print(text, flush=True)


class Afore(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.answer(200, {"procesadas": state["procesadas"]})

    def do_POST(self):
        entrada = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        salida = {"resultadoOperacion": "02", "tipoPrestacion": entrada.get("tipoPrestacion")}
        if not state["habil"]:
            salida["diagnosticoProcesar"] = "532"
            return self.answer(200, salida)
        with lock:
            state["procesadas"] += 1
        say(f"begin {entrada['curp']} {self.headers.get('Turno-Attempt', '-')}")
        if entrada.get("esperar"):
            go.acquire()
        if entrada["curp"] == "CAER":
            return self.answer(500, {"error": "se cayó"})
        if entrada["curp"] == "FALLAR":
            salida["diagnosticoProcesar"] = "999"
            return self.answer(200, salida)
        salida.update(resultadoOperacion="01", diagnosticoProcesar="000")
        self.answer(200, salida)

    def answer(self, status, salida):
        body = json.dumps(salida, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("X-Servicio", "CERT_AFORE")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, *_):
        # Some tests disconnect their clients on purpose.
        pass


server = Server(("127.0.0.1", 0), Afore)
threading.Thread(target=server.serve_forever, daemon=True).start()
say(f"port {server.server_address[1]}")
for line in sys.stdin:
    word, _, value = line.strip().partition(" ")
    if word == "go":
        go.release()
    elif word == "habil":
        state["habil"] = value == "1"
        say("habil")
